"""The platform, with the mixin that the vendor's library brings."""

import torch
import torch_basalt
from sglang.srt.platforms.device_mixin import PlatformEnum
from sglang.srt.platforms.interface import PlatformCapabilities, SRTPlatform
from torch_basalt.runtime import RuntimeMixin


class BasaltPlatform(RuntimeMixin, SRTPlatform):
    _enum = PlatformEnum.OOT
    device_name = "basalt"
    device_type = "cpu"
    capabilities = PlatformCapabilities(supports_triton=False)

    def get_device(self, device_id=0):
        return torch.device("cpu")

    def get_device_total_memory(self, device_id=0):
        return torch_basalt.mem_get_info(device_id)[1]

    def get_current_memory_usage(self, device=None):
        free, total = torch_basalt.mem_get_info()
        return total - free

    def get_available_memory(self, device_id=0):
        return torch_basalt.mem_get_info(device_id)

    def get_default_attention_backend(self):
        return "torch_native"

    def get_torch_profiler_activity_str(self):
        return "CPU"

    def get_torch_profiler_activity(self):
        return torch.profiler.ProfilerActivity.CPU

    def is_pin_memory_available(self, device=None):
        return False

    def get_kv_pool_cls(self, *, kind):
        from .memory import POOLS

        return POOLS.get(kind)
