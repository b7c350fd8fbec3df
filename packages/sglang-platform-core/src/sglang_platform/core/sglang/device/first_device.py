"""Calls the platform's `initialize_device()`: SGLang sets a scheduler's device without asking the platform first."""

from __future__ import annotations

from typing import Any

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.registration import required
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Call it right before SGLang sets the device, with the worker's rank and device index."""

    def in_context(*args: Any, **kwargs: Any) -> None:
        from sglang.srt.runtime_context import get_device, get_parallel

        ranks = get_parallel()
        rank = ranks.tp_size * ranks.pp_rank + ranks.tp_rank
        platform.initialize_device(rank=rank, local_rank=get_device().gpu_id)

    def of_scheduler(
        scheduler: Any,
        server_args: Any,
        port_args: Any,
        gpu_id: int,
        tp_rank: int,
        moe_ep_rank: int,
        pp_rank: int,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        platform.initialize_device(rank=server_args.tp_size * pp_rank + tp_rank, local_rank=gpu_id)

    required(
        host.sets_device, in_context if host.ranks_in_context else of_scheduler, HookType.BEFORE,
        without="initialize_device() of the platform is not called",
    )  # fmt: skip
