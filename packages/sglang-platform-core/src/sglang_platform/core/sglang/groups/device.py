"""Puts process groups on the platform's device (`get_group_coordinator_device()`, which SGLang before 0.5.23 does not
call out of tree), and keeps the same-node check of groups on the CPU."""

from __future__ import annotations

from typing import Any

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.host_classes import GROUP_COORDINATOR
from sglang_platform.core.sglang.registration import required, soft
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]

_SAME_NODE = "sglang.srt.distributed.parallel_state:in_the_same_node_as"


def _on_the_host(original: Any, *args: Any, **kwargs: Any) -> Any:
    """Run the same-node check on CPU tensors, even if it runs while a model is built on the device."""
    import torch

    with torch.device("cpu"):
        return original(*args, **kwargs)


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Put each group on the platform's device, in releases of SGLang that do not ask for it."""
    if not platform.is_out_of_tree():
        return
    soft(
        _SAME_NODE, _on_the_host, HookType.AROUND,
        without="several ranks may fail to start, where they ask while a model is built on the device",
    )  # fmt: skip
    if host.asks_group_device:
        return

    def bind_device(result: Any, group: Any, *args: Any, **kwargs: Any) -> None:
        import torch

        device = platform.get_group_coordinator_device(group.local_rank)
        if device != group.device:
            group.device = device
            group.device_module = torch.get_device_module(device)
            group.active_ranks = group.active_ranks.to(device)

    # Runs before the communicator's hook on the same function, which passes the device on.
    required(
        f"{GROUP_COORDINATOR}.__init__", bind_device, HookType.AFTER, order=-1,
        without="process groups are not on the platform's device",
    )  # fmt: skip
