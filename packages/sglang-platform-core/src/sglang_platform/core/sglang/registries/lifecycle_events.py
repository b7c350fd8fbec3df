"""Dispatches the registry's lifecycle events from hooks on SGLang.

The graph runner calls `query_run_eagerly`, the process report `query_report`: neither needs a hook.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.registries import events
from sglang_platform.core.sglang.host_classes import MODEL_RUNNER, SCHEDULER
from sglang_platform.core.sglang.registration import required
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Hook the function of each event when the first object that implements the event is registered."""
    events.when_heard(_hook_event)


def _hook_event(event: str) -> None:
    if event in _HOOKS:
        required(*_HOOKS[event], without="objects that a plugin registered for this event are not told of it")


def _model_loaded(result: Any, runner: Any, *args: Any, **kwargs: Any) -> None:
    events.dispatch("on_model_loaded", runner)


def _forward_begin(runner: Any, forward_batch: Any, *args: Any, **kwargs: Any) -> None:
    events.dispatch("on_forward_begin", forward_batch)


def _forward_end(result: Any, runner: Any, forward_batch: Any, *args: Any, **kwargs: Any) -> None:
    events.dispatch("on_forward_end", forward_batch, result)


def _request_admitted(original: Any, scheduler: Any, req: Any, *args: Any, **kwargs: Any) -> Any:
    """SGLang's function queues or aborts a request, and runs again for a retracted request."""
    again = kwargs.get("is_retracted", bool(args and args[0]))
    waiting = len(scheduler.waiting_queue)
    returned = original(scheduler, req, *args, **kwargs)
    # With prefill-decode disaggregation the request waits in other queues.
    queued = scheduler.disaggregation_mode.value != "null" or len(scheduler.waiting_queue) > waiting
    if queued and not again:
        events.dispatch("on_request_admitted", req)
    return returned


def _batch_done(_: Any, scheduler: Any, batch: Any, result: Any, *args: Any, **kwargs: Any) -> None:
    events.dispatch("on_batch_done", batch, result)


def _cache_flushed(flushed: Any, scheduler: Any, *args: Any, **kwargs: Any) -> None:
    if flushed:
        events.dispatch("on_cache_flushed")


_HOOKS: dict[str, tuple[str, Callable[..., Any], HookType]] = {
    "on_model_loaded": (f"{MODEL_RUNNER}.load_model", _model_loaded, HookType.AFTER),
    "on_forward_begin": (f"{MODEL_RUNNER}.forward", _forward_begin, HookType.BEFORE),
    "on_forward_end": (f"{MODEL_RUNNER}.forward", _forward_end, HookType.AFTER),
    "on_request_admitted": (f"{SCHEDULER}._add_request_to_queue", _request_admitted, HookType.AROUND),
    "on_batch_done": (f"{SCHEDULER}.process_batch_result", _batch_done, HookType.AFTER),
    "on_cache_flushed": (f"{SCHEDULER}.flush_cache", _cache_flushed, HookType.AFTER),
}
"""By event, the function of SGLang and the hook on it."""
