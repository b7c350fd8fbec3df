"""The device: identity, memory, properties. Shared by the LLM runtime and the diffusion runtime.

A vendor changes: everything here; each method asks the vendor's driver or its `torch.<device>` module.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING

from sglang_platform.core import DeviceCapability, DeviceMixin, PlatformEnum

if TYPE_CHECKING:
    import torch


class ExampleOOTDeviceMixin(DeviceMixin):
    """The machine's CPU, presented as a device of its own."""

    _enum = PlatformEnum.OOT
    device_name = "example_oot"
    device_type = "cpu"

    def get_device(self, device_id: int = 0) -> torch.device:
        import torch

        return torch.device(self.device_type)

    def set_device(self, device: torch.device) -> None:
        """There is one device and it is always current."""

    def get_device_name(self, device_id: int = 0) -> str:
        return f"example device on {platform.machine()}"

    def get_device_uuid(self, device_id: int = 0) -> str:
        """A name that is stable across processes of one machine."""
        return f"example-oot-{platform.node()}-{device_id}"

    def get_device_capability(self, device_id: int = 0) -> DeviceCapability | None:
        return None

    def get_device_total_memory(self, device_id: int = 0) -> int:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def get_available_memory(self, device_id: int = 0) -> tuple[int, int]:
        return _available_bytes(), self.get_device_total_memory(device_id)

    def get_current_memory_usage(self, device: torch.device | None = None) -> float:
        """Bytes in use on the whole machine, so that total less this is what is free."""
        free, total = self.get_available_memory()
        return float(total - free)

    def get_torch_profiler_activity_str(self) -> str:
        return "CPU"

    def get_torch_profiler_activity(self) -> torch.profiler.ProfilerActivity:
        import torch

        return torch.profiler.ProfilerActivity.CPU


def _available_bytes() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass  # no procfs: count the free pages instead
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
