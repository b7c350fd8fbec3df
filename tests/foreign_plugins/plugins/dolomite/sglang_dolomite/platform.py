"""The platform for every release from 0.5.11 on: today's names and the older ones."""

from sglang.srt.platforms import interface
from sglang.srt.platforms.device_mixin import PlatformEnum

from .mixins import DolomiteMemory, DolomiteOlderNames


class DolomitePlatform(DolomiteMemory, DolomiteOlderNames, interface.SRTPlatform):
    _enum = PlatformEnum.OOT
    device_name: str = "dolomite"
    device_type: str = "cpu"

    if hasattr(interface, "PlatformCapabilities"):
        capabilities = interface.PlatformCapabilities(graph_capture=False)

    def get_default_attention_backend(self) -> str:
        return "torch_native"

    def get_kv_pool_cls(self, *, kind: str):
        return self.get_mha_kv_pool_cls() if kind == "mha" else None

    def get_compile_backend(self, mode=None):
        return "eager"

    def get_device(self, *args, **kwargs):
        import torch

        return torch.device("cpu")
