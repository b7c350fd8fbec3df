"""Dispatches the registry's lifecycle events from hooks on SGLang.

The graph runner calls `query_run_eagerly`, the process report `query_report`: neither needs a hook.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.registries import events
from sglang_platform.core.sglang.host_classes import MODEL_RUNNER, SCHEDULER
from sglang_platform.core.sglang.registration import required
from sglang_platform.core.sglang.scheduler_steps import when_batch_done, when_request_admitted
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Hook the function of each event when the first object that implements the event is registered."""
    events.when_heard(_hook_event)


def _hook_event(event: str) -> None:
    hook = _HOOKS.get(event)
    if hook is not None:
        hook()


def _model_loaded(result: Any, runner: Any, *args: Any, **kwargs: Any) -> None:
    events.dispatch("on_model_loaded", runner)


def _forward_begin(runner: Any, forward_batch: Any, *args: Any, **kwargs: Any) -> None:
    events.dispatch("on_forward_begin", forward_batch)


def _forward_end(result: Any, runner: Any, forward_batch: Any, *args: Any, **kwargs: Any) -> None:
    events.dispatch("on_forward_end", forward_batch, result)


def _request_admitted(scheduler: Any, req: Any) -> None:
    events.dispatch("on_request_admitted", req)


def _batch_done(scheduler: Any, batch: Any, result: Any) -> None:
    events.dispatch("on_batch_done", batch, result)


def _cache_flushed(flushed: Any, scheduler: Any, *args: Any, **kwargs: Any) -> None:
    if flushed:
        events.dispatch("on_cache_flushed")


def _register(place: str, hook: Callable[..., None], type: HookType) -> None:
    required(place, hook, type, without="objects that a plugin registered for this event are not told of it")


_HOOKS: dict[str, Callable[[], None]] = {
    "on_model_loaded": partial(_register, f"{MODEL_RUNNER}.load_model", _model_loaded, HookType.AFTER),
    "on_forward_begin": partial(_register, f"{MODEL_RUNNER}.forward", _forward_begin, HookType.BEFORE),
    "on_forward_end": partial(_register, f"{MODEL_RUNNER}.forward", _forward_end, HookType.AFTER),
    "on_request_admitted": partial(when_request_admitted, _request_admitted),
    "on_batch_done": partial(when_batch_done, _batch_done),
    "on_cache_flushed": partial(_register, f"{SCHEDULER}.flush_cache", _cache_flushed, HookType.AFTER),
}
"""By event, the function that registers the hook for it."""
