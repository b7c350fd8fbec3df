"""Callbacks on the steps of SGLang's scheduler: a request is admitted, a batch is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.host_classes import SCHEDULER
from sglang_platform.core.sglang.registration import required

__all__ = ["when_batch_done", "when_request_admitted"]


def when_request_admitted(tell: Callable[[Any, Any], None]) -> None:
    """Call `tell(scheduler, req)` for each request that is queued for the first time.

    SGLang's function queues or aborts a request, and runs again for a retracted request.
    """

    def add_request(original: Any, scheduler: Any, req: Any, *args: Any, **kwargs: Any) -> Any:
        again = kwargs.get("is_retracted", bool(args and args[0]))
        waiting = len(scheduler.waiting_queue)
        result = original(scheduler, req, *args, **kwargs)
        # With prefill-decode disaggregation the request waits in other queues.
        queued = scheduler.disaggregation_mode.value != "null" or len(scheduler.waiting_queue) > waiting
        if queued and not again:
            tell(scheduler, req)
        return result

    required(
        f"{SCHEDULER}._add_request_to_queue", add_request, HookType.AROUND,
        without="those who registered are not told of admitted requests",
    )  # fmt: skip


def when_batch_done(tell: Callable[[Any, Any, Any], None]) -> None:
    """Call `tell(scheduler, batch, result)` when the scheduler has processed the result of a batch."""

    def process_batch_result(
        _: Any, scheduler: Any, batch: Any, result: Any, *args: Any, **kwargs: Any
    ) -> None:
        tell(scheduler, batch, result)

    required(
        f"{SCHEDULER}.process_batch_result", process_batch_result, HookType.AFTER,
        without="those who registered are not told of finished batches",
    )  # fmt: skip
