from pathlib import Path

from sglang_platform.core import DeviceMixin, PlatformEnum, SRTPlatform


class Device(DeviceMixin):
    _enum = PlatformEnum.OOT
    device_name = "mutant"
    device_type = "cpu"

    def get_device(self, device_id=0):
        import torch

        return torch.device("cpu")

    def set_device(self, device):
        pass

    def get_device_name(self, device_id=0):
        return "a healthy device"

    def get_device_uuid(self, device_id=0):
        import uuid

        return f"mutant-{uuid.getnode():x}"

    def get_device_capability(self, device_id=0):
        return None

    def get_device_total_memory(self, device_id=0):
        import os

        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def get_available_memory(self, device_id=0):
        total = self.get_device_total_memory(device_id)
        with Path("/proc/meminfo").open() as lines:
            free = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
        return free * 1024, total

    def get_current_memory_usage(self, device=None):
        free, total = self.get_available_memory()
        return float(total - free)


class Platform(SRTPlatform, Device):
    def get_default_attention_backend(self):
        return "torch_native"
