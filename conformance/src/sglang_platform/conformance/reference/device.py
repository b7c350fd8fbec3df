"""The device: this machine's CPU."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING

from sglang_platform.core import DeviceCapability, DeviceMixin, PlatformEnum

if TYPE_CHECKING:
    import torch

__all__ = ["ReferenceDevice"]


class ReferenceDevice(DeviceMixin):
    """One CPU, presented as an out-of-tree device."""

    _enum = PlatformEnum.OOT
    device_name = "reference"
    device_type = "cpu"

    def get_device(self, device_id: int = 0) -> torch.device:
        import torch

        return torch.device("cpu")

    def set_device(self, device: torch.device) -> None:
        """There is one device."""

    def get_device_name(self, device_id: int = 0) -> str:
        return f"reference device on {platform.machine()}"

    def get_device_uuid(self, device_id: int = 0) -> str:
        return f"reference-{platform.node()}-{device_id}"

    def get_device_capability(self, device_id: int = 0) -> DeviceCapability | None:
        return None

    def get_device_total_memory(self, device_id: int = 0) -> int:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def get_available_memory(self, device_id: int = 0) -> tuple[int, int]:
        return _available(), self.get_device_total_memory()

    def get_current_memory_usage(self, device: torch.device | None = None) -> float:
        free, total = self.get_available_memory()
        return float(total - free)

    def get_torch_profiler_activity_str(self) -> str:
        return "CPU"

    def get_torch_profiler_activity(self) -> torch.profiler.ProfilerActivity:
        import torch

        return torch.profiler.ProfilerActivity.CPU


def _available() -> int:
    """What the system could still give: free pages, and those that only hold files."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
