"""The device: here the machine's processor and memory."""

import os

import torch

from sglang_platform.core import DeviceMixin, PlatformEnum


class EmberDevice(DeviceMixin):
    _enum = PlatformEnum.OOT
    device_name = "ember"
    device_type = "cpu"

    def get_device(self, device_id=0):
        return torch.device("cpu")

    def set_device(self, device):
        pass

    def get_device_name(self, device_id=0):
        return "Ember E1"

    def get_device_uuid(self, device_id=0):
        return f"ember-{device_id}"

    def get_device_capability(self, device_id=0):
        return None

    def get_device_total_memory(self, device_id=0):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def get_available_memory(self, device_id=0):
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return free, self.get_device_total_memory(device_id)

    def get_current_memory_usage(self, device=None):
        free, total = self.get_available_memory()
        return float(total - free)

    def get_torch_distributed_backend_str(self):
        return "gloo"

    def get_torch_profiler_activity_str(self):
        return "CPU"

    def get_torch_profiler_activity(self):
        return torch.profiler.ProfilerActivity.CPU

    def is_pin_memory_available(self, device=None):
        return False
