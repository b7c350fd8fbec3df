"""Creates the registered request coordinators with each scheduler, and calls them for its requests and batches."""

from __future__ import annotations

from typing import Any

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.registries import coordinators
from sglang_platform.core.sglang.host_classes import SCHEDULER
from sglang_platform.core.sglang.registration import required
from sglang_platform.core.sglang.scheduler_steps import when_batch_done, when_request_admitted
from sglang_platform.core.sglang.served_model import served_model
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]

_KEPT = "_sglang_platform_coordinators"


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Hook the scheduler when the first coordinator is registered."""
    coordinators.coordinators.when_first_added(_hook_scheduler)


def _hook_scheduler() -> None:
    required(
        f"{SCHEDULER}.__init__",
        _create,
        HookType.AFTER,
        without="registered request coordinators are not made",
    )
    when_request_admitted(_request_admitted)
    when_batch_done(_batch_done)


def _create(result: Any, scheduler: Any, *args: Any, **kwargs: Any) -> None:
    wanted = coordinators.wanted_coordinators(served_model().model_class)
    made = [coordinators.create_coordinator(name, scheduler=scheduler) for name in wanted]
    setattr(scheduler, _KEPT, made)


def _request_admitted(scheduler: Any, req: Any) -> None:
    _tell(scheduler, "on_request_admitted", req)


def _batch_done(scheduler: Any, batch: Any, result: Any) -> None:
    _tell(scheduler, "on_batch_done", batch, result)


def _tell(scheduler: Any, event: str, *args: Any) -> None:
    for coordinator in getattr(scheduler, _KEPT, ()):
        method = getattr(coordinator, event, None)
        if method is not None:
            method(*args)
