"""Orders the scheduler's stream after the model's forward stream, while they overlap.

The scheduler frees and reuses slots on its stream while the forward of the previous step may still read the slot tables
(a write-after-read race). It happens with a prompt whose end is cached already, or a sliding window that has moved on,
and yields a wrong answer, rarely, on a busy machine. SGLang has a barrier on CUDA only (since 0.5.13), elsewhere if
`SGLANG_ENABLE_WAR_BARRIER` is set (since 0.5.14), and never between pipeline stages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.host_classes import SCHEDULER
from sglang_platform.core.sglang.registration import required
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["behind_the_forward", "register_hooks"]


def register_hooks(host: HostFacts) -> None:
    """Make the scheduler's stream wait for the forward just launched. The CPU thread does not wait."""
    required(
        f"{SCHEDULER}.run_batch", behind_the_forward(host), HookType.AFTER,
        without="an answer is wrong now and then: slots are reused while a forward still reads them",
    )  # fmt: skip


def behind_the_forward(host: HostFacts) -> Callable[..., None]:
    """The hook that makes the scheduler's stream wait.

    Without overlap, pipeline stages still overlap: the next chunk of a prompt is planned while one runs, which frees
    sliding-window slots. Models without a window have no such slot map, and their results return through the
    scheduler's stream, so it does not wait.
    """

    def wait(_: Any, scheduler: Any, *args: Any, **kwargs: Any) -> None:
        if scheduler.enable_overlap:
            needed = not (host.barrier_asks_backend and scheduler._war_barrier_enabled)
        else:
            needed = scheduler.is_hybrid_swa
        if needed:
            scheduler.schedule_stream.wait_stream(scheduler.forward_stream)

    return wait
