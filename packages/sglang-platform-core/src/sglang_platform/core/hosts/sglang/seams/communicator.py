"""The platform's communicator in the host's groups. No release asks for one (0.5.11 to 0.5.23): hooks carry it in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang_platform.core.distributed.communicator import COLLECTIVES
from sglang_platform.core.hooks.registry import HookRegistry, HookType
from sglang_platform.core.hosts.sglang.seams.places import GROUP_COORDINATOR
from sglang_platform.core.hosts.sglang.versions import HostFacts

__all__ = ["register_hooks"]

_KEPT = "_sglang_platform_communicator"


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Give each group of more than one rank its communicator, and let it carry the collectives it has."""
    cls = platform.get_communicator_class()
    if cls is None:
        return

    def equip(result: Any, group: Any, *args: Any, **kwargs: Any) -> None:
        if group.world_size > 1:
            communicator = cls(
                cpu_group=group.cpu_group,
                device=group.device,
                device_group=group.device_group,
                unique_name=group.unique_name,
            )
            setattr(group, _KEPT, communicator)

    HookRegistry.register(f"{GROUP_COORDINATOR}.__init__", equip, HookType.AFTER)
    for name in COLLECTIVES:
        if hasattr(cls, name):
            HookRegistry.register(f"{GROUP_COORDINATOR}.{name}", _routed(name), HookType.AROUND)


def _routed(name: str) -> Callable[..., Any]:
    def collective(original: Any, group: Any, *args: Any, **kwargs: Any) -> Any:
        communicator = getattr(group, _KEPT, None)
        if communicator is None or communicator.disabled or kwargs.get("output_tensor_list") is not None:
            return original(group, *args, **kwargs)
        # The host's parameters beyond the contract's (an output list, a stream) stay with the host.
        if name == "all_gather" and len(args) > 2:
            return original(group, *args, **kwargs)
        kwargs.pop("output_tensor_list", None)
        return getattr(communicator, name)(*args, **kwargs)

    return collective
