"""The device: identity, memory, properties. Shared by the LLM runtime and the diffusion runtime.

A vendor changes: everything here; each method asks the vendor's driver or its `torch.<device>` module.
"""

from __future__ import annotations

import platform
import threading
from typing import Any

import torch
from sglang_platform.core import DeviceCapability, DeviceMixin, PlatformEnum

from sglang_platform.example_oot import machine, torch_device
from sglang_platform.example_oot.device_type import NAME

_lock = threading.Lock()
_opened: str | None = None


def open_device() -> str:
    """Register the device with torch, once per process; returns the platform's device type."""
    global _opened
    with _lock:
        if _opened is None:
            _opened = torch_device.register()
        return _opened


class ExampleOOTDeviceMixin(DeviceMixin):
    """The machine's processor and memory, presented as a device of its own."""

    _enum = PlatformEnum.OOT
    device_name = "example_oot"
    device_type = NAME

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # The instance is made once in every process that serves, before the first tensor.
        self.device_type = open_device()

    def get_device(self, device_id: int | None = 0) -> torch.device:
        if device_id is None or self.device_type == "cpu":
            return torch.device(self.device_type)
        return torch.device(self.device_type, device_id)

    def set_device(self, device: torch.device) -> None:
        if device.type != "cpu":
            torch.accelerator.set_device_index(device)

    def get_device_name(self, device_id: int = 0) -> str:
        return f"example device on {platform.machine()}"

    def get_device_uuid(self, device_id: int = 0) -> str:
        """A name that is stable across processes of one machine."""
        return f"example-oot-{platform.node()}-{device_id}"

    def get_device_capability(self, device_id: int = 0) -> DeviceCapability | None:
        return None

    def get_device_total_memory(self, device_id: int = 0) -> int:
        return machine.memory_limit()

    def get_available_memory(self, device_id: int = 0) -> tuple[int, int]:
        """The bytes left of the limit, at most the free memory of the machine."""
        free = machine.available_memory()
        if self.device_type != "cpu":
            free = min(free, torch.accelerator.get_memory_info(device_id)[0])
        return free, self.get_device_total_memory(device_id)

    def get_current_memory_usage(self, device: torch.device | None = None) -> float:
        """Bytes in use on `device` (None: the current one), including other processes, so that total minus this is
        free."""
        index = getattr(device, "index", None)
        if index is None and self.device_type != "cpu":
            index = torch.accelerator.current_device_index()
        free, total = self.get_available_memory(index or 0)
        return float(total - free)

    def empty_cache(self) -> None:
        if self.device_type != "cpu":
            torch.accelerator.empty_cache()

    def synchronize(self) -> None:
        if self.device_type != "cpu":
            torch.accelerator.synchronize()

    def is_pin_memory_available(self, device: Any = None) -> bool:
        """True except on device type `cpu`: copies from pinned memory are asynchronous."""
        return self.device_type != "cpu"

    def get_torch_distributed_backend_str(self) -> str:
        return "gloo" if self.device_type == "cpu" else NAME

    def get_torch_profiler_activity_str(self) -> str:
        return "CPU"

    def get_torch_profiler_activity(self) -> torch.profiler.ProfilerActivity:
        return torch.profiler.ProfilerActivity.CPU
