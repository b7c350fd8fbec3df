"""What the diffusion worker expects of torch's device module, completed where a device's module lacks it.

The worker of an out-of-tree platform measures memory through `torch.get_device_module()`, without asking the
platform (`gpu_worker.py`, `performance_logger.py` and the component manager of SGLang 0.5.23). A device whose module
has no allocator statistics, torch's own CPU module among them, would end its first request with an AttributeError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["complete"]


def complete(platform: Any) -> list[str]:
    """Add the missing functions to the device module of this process; returns their names.

    They answer from the platform: memory in use is its peak, reserved is used, nothing is reset.
    """
    import torch

    module = torch.get_device_module(platform.device_type)
    added = [name for name in _ANSWERS if not hasattr(module, name)]
    for name in added:
        setattr(module, name, _answer(platform, name))
    return added


def _answer(platform: Any, name: str) -> Callable[..., Any]:
    ask = _ANSWERS[name]

    def function(*args: Any, **kwargs: Any) -> Any:
        return ask(platform)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Answered by the platform {platform.device_name!r}: the device's torch module has no {name}."
    )
    return function


def _used(platform: Any) -> int:
    return int(platform.get_current_memory_usage())


def _nothing(platform: Any) -> None:
    return None


_ANSWERS: dict[str, Callable[[Any], Any]] = {
    "empty_cache": lambda platform: platform.empty_cache(),
    "max_memory_allocated": _used,
    "max_memory_reserved": _used,
    "mem_get_info": lambda platform: platform.get_available_memory(),
    "memory_allocated": _used,
    "memory_reserved": _used,
    "reset_peak_memory_stats": _nothing,
    "synchronize": lambda platform: platform.synchronize(),
}
