"""Lifecycle events: listeners are notified at steps of the engine and queried for decisions.

An object implements any subset of the methods named after the events below. An event without
listeners costs one lookup of an empty tuple, and no hook in the host: the adapter hooks the call site of an event when
the first object that implements it is registered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang_platform.core.hooks.registry import with_source_of_now
from sglang_platform.core.registries.registry import Registry, RegistryError
from sglang_platform.core.spelling import nearest

__all__ = [
    "EVENTS",
    "QUERIES",
    "dispatch",
    "is_heard",
    "listeners",
    "query_any",
    "query_collect",
    "register_forward_hook",
    "when_heard",
]

EVENTS = {
    "on_model_loaded": "model_runner",
    "on_forward_begin": "forward_batch",
    "on_forward_end": "forward_batch, output",
    "on_request_admitted": "req",
    "on_batch_done": "batch, result",
    "on_cache_flushed": "",
}
"""Events: method name to arguments. Return values are ignored; an exception propagates into the engine."""

QUERIES = {
    "query_run_eagerly": "forward_batch",
    "query_report": "",
}
"""Queries: `query_run_eagerly` whether this decode batch must not be replayed from a graph,
`query_report` for a JSON-able value that is put into the process's report."""

_KNOWN = {**EVENTS, **QUERIES}

_methods: dict[str, tuple[Callable[..., Any], ...]] = dict.fromkeys(_KNOWN, ())
_hearers: list[Callable[[str], None]] = []


def register_forward_hook(name: str, obj: Any, priority: int = 100) -> None:
    """Register `obj` as a listener for its events and queries; lower priorities are called first.

    Raises RegistryError if `obj` has an `on_*` or `query_*` method that is not an event, or no such method, or if
    another object has the name.
    """
    own = [
        method
        for method in dir(obj)
        if method.startswith(("on_", "query_")) and callable(getattr(obj, method))
    ]
    unknown = [method for method in own if method not in _KNOWN]
    if unknown or not own:
        meant = ", ".join(f"{one} -> {nearest(one, _KNOWN) or '?'}" for one in unknown)
        raise RegistryError(
            f"lifecycle listener {name!r} has methods that no event calls: {', '.join(unknown)}"
            if unknown
            else f"lifecycle listener {name!r} has no method that an event calls",
            why=f"the events are {', '.join(_KNOWN)}" + (f"; nearest: {meant}" if meant else ""),
            fix="use an event's name; a method of your own starts with neither on_ nor query_",
        )
    before = {event for event, methods in _methods.items() if methods}
    listeners.add(name, obj, priority)
    for event in own:
        if event not in before:
            for hear in tuple(_hearers):
                hear(event)


def dispatch(event: str, *args: Any) -> None:
    """Call `event` on every object that implements it."""
    for method in _methods[event]:
        method(*args)


def is_heard(event: str) -> bool:
    """Whether any object implements `event`."""
    return bool(_methods[event])


def query_any(event: str, *args: Any) -> bool:
    """Whether any object returns a true value; stops at the first one."""
    return any(method(*args) for method in _methods[event])


def query_collect(event: str, *args: Any) -> list[Any]:
    """The answers of all objects that implement `event`, except None."""
    answers = [method(*args) for method in _methods[event]]
    return [answer for answer in answers if answer is not None]


def when_heard(hear: Callable[[str], None]) -> None:
    """Call `hear(event)` once for each event that an object implements, now or later. Hooks that it registers are
    attributed to the plugin that is running now. For the host adapter."""
    _hearers.append(with_source_of_now(hear))
    for event, methods in _methods.items():
        if methods:
            hear(event)


def reset() -> None:
    """Forget all objects. For tests."""
    listeners.clear()
    _hearers.clear()


def _collect() -> None:
    for event in _KNOWN:
        _methods[event] = tuple(
            getattr(entry.part, event) for entry in listeners if hasattr(entry.part, event)
        )


listeners: Registry[Any] = Registry("lifecycle_listeners", "lifecycle listener", changed=_collect)
