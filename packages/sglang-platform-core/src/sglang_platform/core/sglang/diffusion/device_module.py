"""Adds functions that the diffusion worker expects of torch's device module, if the module lacks them.

The worker of an out-of-tree platform measures memory and reads properties through `torch.get_device_module()`, without
asking the platform: SGLang 0.5.23 in `gpu_worker.py`, `perf_logger.py`, the component manager, and while it imports its
norms (`sglang.kernels.ops.diffusion.norm.norm_triton`). A device whose module lacks such a function, torch's own CPU
module among them, could load no model.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

__all__ = ["complete"]


def complete(platform: Any) -> list[str]:
    """Add the missing functions to the device module of this process; returns their names.

    They call the platform. Peak and reserved memory are reported as the memory in use; resetting the peak is a no-op.
    """
    import torch

    # SGLang passes no device type, and gets the accelerator's module, or the CPU's if there is no accelerator.
    module = torch.get_device_module()
    added = [name for name in _ANSWERS if not hasattr(module, name)]
    for name in added:
        setattr(module, name, _answer(platform, name))
    return added


def _answer(platform: Any, name: str) -> Callable[..., Any]:
    ask = _ANSWERS[name]

    def function(device: Any = None) -> Any:
        return ask(platform, _device(platform, device))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Answered by the platform {platform.device_name!r}: the device's torch module has no {name}."
    )
    return function


def _device(platform: Any, device: Any) -> Any:
    """A `torch.device` with an index; for None the worker's own."""
    import torch

    if isinstance(device, int):
        return torch.device(platform.device_type, device)
    named = platform.get_local_torch_device() if device is None else torch.device(device)
    return torch.device(named.type, named.index or 0)


def _used(platform: Any, device: Any) -> int:
    return int(platform.get_current_memory_usage(device))


def _properties(platform: Any, device: Any) -> SimpleNamespace:
    index = device.index
    return SimpleNamespace(
        name=platform.get_device_name(index), total_memory=platform.get_device_total_memory(index)
    )


_ANSWERS: dict[str, Callable[[Any, Any], Any]] = {
    "empty_cache": lambda platform, _: platform.empty_cache(),
    "get_device_properties": _properties,
    "max_memory_allocated": _used,
    "max_memory_reserved": _used,
    "mem_get_info": lambda platform, device: platform.get_available_memory(device.index),
    "memory_allocated": _used,
    "memory_reserved": _used,
    "reset_peak_memory_stats": lambda platform, _: None,
    "synchronize": lambda platform, _: platform.synchronize(),
}
