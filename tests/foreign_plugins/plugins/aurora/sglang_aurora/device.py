"""Device management. `libaurora` is the vendor's driver; without it the numbers are those of the host."""

import importlib.util
import os

import torch

from .compat import *

if importlib.util.find_spec("libaurora") is not None:
    import libaurora

    class _Driver:
        @staticmethod
        def memory(index):
            return libaurora.memory_info(index)

        @staticmethod
        def uuid(index):
            return libaurora.uuid(index)

else:

    class _Driver:
        @staticmethod
        def memory(index):
            pages = os.sysconf("SC_PHYS_PAGES")
            return os.sysconf("SC_AVPHYS_PAGES") * 4096, pages * 4096

        @staticmethod
        def uuid(index):
            return f"aurora-{index}"


class AuroraDeviceMixin(DeviceMixin):
    _enum = PlatformEnum.OOT
    device_name = "aurora"
    device_type = "cpu"

    def get_device(self, device_id: int = 0):
        return torch.device(self.device_type)

    def set_device(self, device) -> None:
        pass

    def get_device_name(self, device_id: int = 0) -> str:
        return "Aurora A1"

    def get_device_uuid(self, device_id: int = 0) -> str:
        return _Driver.uuid(device_id)

    def get_device_capability(self, device_id: int = 0):
        return DeviceCapability(1, 0)

    def get_device_total_memory(self, device_id: int = 0) -> int:
        return _Driver.memory(device_id)[1]

    def get_available_memory(self, device_id: int = 0):
        free, total = _Driver.memory(device_id)
        return free, total

    def get_current_memory_usage(self, device=None) -> float:
        free, total = _Driver.memory(0)
        return float(total - free)

    def get_torch_distributed_backend_str(self) -> str:
        return "gloo"

    def get_torch_profiler_activity_str(self) -> str:
        return "CPU"

    def get_torch_profiler_activity(self):
        return torch.profiler.ProfilerActivity.CPU

    @classmethod
    def seed_everything(cls, seed=None) -> None:
        if seed is not None:
            torch.manual_seed(seed)
