# ruff: noqa: E731, F401, PTH123, SIM115
from os import sysconf

import torch

from sglang_platform.core import DeviceMixin, PlatformCapabilities, PlatformEnum, SRTPlatform, platform_plugin


@platform_plugin
def activate():
    return "my_device:MyPlatform"


class MyDevice(DeviceMixin):
    device_name = "my_device"
    get_device = lambda self, device_id=0: torch.device("cpu")
    set_device = lambda self, device: None
    get_device_name = lambda self, device_id=0: "My Device 1"
    get_device_uuid = lambda self, device_id=0: "my-device-0001"
    get_device_capability = lambda self, device_id=0: None
    get_device_total_memory = lambda self, device_id=0: (
        sysconf("SC_PHYS_PAGES") * sysconf("SC_PAGESIZE") >> 20
    )
    get_available_memory = lambda self, device_id=0: (
        (int(open("/proc/meminfo").read().split()[7]) << 10, self.get_device_total_memory())
    )
    get_current_memory_usage = lambda self, device=None: float(
        sysconf("SC_PHYS_PAGES") * sysconf("SC_PAGESIZE") - self.get_available_memory()[0]
    )


class MyPlatform(SRTPlatform, MyDevice):
    capabilities = PlatformCapabilities(graph_capture=True)

    get_default_attention_backend = lambda self: "torch_native"
