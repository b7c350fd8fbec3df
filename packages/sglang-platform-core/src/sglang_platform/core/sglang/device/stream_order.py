"""The order of the scheduler's stream and the model's, while they overlap.

The scheduler frees and hands out slots on its stream while the forward of the step before may still read there which
slot holds which token: a prompt whose end is cached already, or a window that has moved on, and an answer is wrong,
seldom, on a busy machine. SGLang holds its stream back on CUDA alone (since 0.5.13), and elsewhere where
`SGLANG_ENABLE_WAR_BARRIER` is set (since 0.5.14); and never between the stages of a pipeline.
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
    """Let what the scheduler does to the device next wait for the forward that it has launched. It goes on itself."""
    required(
        f"{SCHEDULER}.run_batch", behind_the_forward(host), HookType.AFTER,
        without="an answer is wrong now and then: slots are reused while a forward still reads them",
    )  # fmt: skip


def behind_the_forward(host: HostFacts) -> Callable[..., None]:
    """The hook. Where steps do not overlap, stages of a pipeline do: the next chunk of a prompt is planned while one
    runs, which frees slots of windows. Other models have no such map, and their results come back by way of the
    scheduler's stream: it is left alone."""

    def wait(_: Any, scheduler: Any, *args: Any, **kwargs: Any) -> None:
        if scheduler.enable_overlap:
            needed = not (host.barrier_asks_backend and scheduler._war_barrier_enabled)
        else:
            needed = scheduler.is_hybrid_swa
        if needed:
            scheduler.schedule_stream.wait_stream(scheduler.forward_stream)

    return wait
