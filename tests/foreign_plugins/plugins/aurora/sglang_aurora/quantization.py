"""Four-bit weights in Aurora's own packing."""

import torch
from sglang.srt.layers.quantization.base_config import QuantizationConfig


class AuroraW4Config(QuantizationConfig):
    def __init__(self, group_size=128):
        super().__init__()
        self.group_size = group_size

    def get_name(self):
        return "aurora_w4"

    def get_supported_act_dtypes(self):
        return [torch.bfloat16]

    @classmethod
    def get_min_capability(cls):
        return 0

    @staticmethod
    def get_config_filenames():
        return ["aurora_config.json"]

    @classmethod
    def from_config(cls, config):
        return cls(config.get("group_size", 128))

    def get_quant_method(self, layer, prefix):
        return None

    def get_scaled_act_names(self):
        return []
