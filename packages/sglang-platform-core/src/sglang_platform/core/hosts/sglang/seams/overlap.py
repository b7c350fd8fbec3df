"""The order of the scheduler's stream and the model's, while they overlap.

The scheduler frees and hands out slots on its stream while the forward of the step before may still read there which
slot holds which token: a prompt whose end is cached already, or a window that has moved on, and an answer is wrong,
seldom, on a busy machine. SGLang holds its stream back on CUDA alone (since 0.5.13), and elsewhere where
`SGLANG_ENABLE_WAR_BARRIER` is set (since 0.5.14).
"""

from __future__ import annotations

from typing import Any

from sglang_platform.core.hooks.registry import HookRegistry, HookType
from sglang_platform.core.hosts.sglang.seams.places import SCHEDULER

__all__ = ["register_hooks"]


def register_hooks(platform: Any) -> None:
    """Let what the scheduler does to the device next wait for the forward that it has launched. It goes on itself."""
    HookRegistry.register(f"{SCHEDULER}.run_batch", _behind_the_forward, HookType.AFTER)


def _behind_the_forward(_: Any, scheduler: Any, *args: Any, **kwargs: Any) -> None:
    if not getattr(scheduler, "_war_barrier_enabled", False):
        scheduler.schedule_stream.wait_stream(scheduler.forward_stream)
