"""The card: who it is and how much memory it has."""

import platform
import uuid

import psutil
import torch

from my_accelerator.communicator import MyAcceleratorCommunicator
from sglang_platform.core import DeviceCapability, DeviceMixin, PlatformEnum

torch.set_num_threads(1)  # one core feeds the card

_UUID = str(uuid.uuid4())


class MyAcceleratorDevice(DeviceMixin):
    _enum = PlatformEnum.OOT
    device_name = "my_accelerator"
    device_type = "cpu"

    def get_device(self, device_id=0):
        return torch.device("cpu")

    def set_device(self, device):
        pass

    def get_device_name(self, device_id=0):
        return "My Accelerator 100"

    def get_device_uuid(self, device_id=0):
        return f"my-accelerator-{platform.node()}-{_UUID}"

    def get_device_capability(self, device_id=0):
        return DeviceCapability(1, 0)

    def get_device_total_memory(self, device_id=0):
        return psutil.virtual_memory().total

    def get_available_memory(self, device_id=0):
        memory = psutil.virtual_memory()
        return memory.available, memory.total

    def get_current_memory_usage(self, device=None):
        memory = psutil.virtual_memory()
        return (memory.total - memory.available) / 1024**2

    def get_communicator_class(self):
        return MyAcceleratorCommunicator
