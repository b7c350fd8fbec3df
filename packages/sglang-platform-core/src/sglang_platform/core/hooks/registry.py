"""`HookRegistry`: SGLang's interface for hooks, with the plugin, the requirement and the order as keywords.

    from sglang_platform.core import HookRegistry, HookType, plugin_hook

    @plugin_hook("sglang.srt.managers.scheduler:Scheduler.get_next_batch_to_run", type=HookType.AFTER)
    def log_batch(batch, scheduler, *args, **kwargs):
        print(batch)

Registering imports nothing. `load_plugins()` calls `apply_hooks()` after the last plugin; from then on a target is
hooked when its module has run, and a hook registered later takes effect at once.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

from sglang_platform.core.errors import HookError, PluginOrigin
from sglang_platform.core.hooks.patching.engine import HookEngine
from sglang_platform.core.hooks.registration import HookSource, Registration
from sglang_platform.core.hooks.report import HookRecord, record
from sglang_platform.core.hooks.targets import parse
from sglang_platform.core.hooks.types import RETURN_NONE, HookType
from sglang_platform.core.host import plugin_run_by_host

__all__ = [
    "RETURN_NONE",
    "HookRegistry",
    "HookSource",
    "HookType",
    "current_source",
    "plugin_hook",
    "plugin_source",
    "sglang_hook",
    "with_source_of_now",
]

_P = ParamSpec("_P")
_Hook = TypeVar("_Hook", bound=Callable[..., Any])

_engine = HookEngine()
_source: contextvars.ContextVar[PluginOrigin | None] = contextvars.ContextVar("hook_source", default=None)
_collected: contextvars.ContextVar[list[Registration] | None] = contextvars.ContextVar(
    "collected", default=None
)


@contextmanager
def plugin_source(origin: PluginOrigin | None) -> Iterator[None]:
    """Hooks registered inside belong to this plugin. `load_plugins()` puts it around each plugin's run."""
    token = _source.set(origin)
    try:
        yield
    finally:
        _source.reset(token)


def current_source() -> PluginOrigin | None:
    """The plugin that is being run, by core or by a host's own loader; None outside of both."""
    return _source.get() or plugin_run_by_host()


def with_source_of_now(call: Callable[_P, None]) -> Callable[_P, None]:
    """`call` for later, on behalf of the plugin that is being run now: hooks registered in it are that plugin's."""
    origin = current_source()

    @wraps(call)
    def made_later(*args: _P.args, **kwargs: _P.kwargs) -> None:
        with plugin_source(origin):
            call(*args, **kwargs)

    return made_later


class _ReadByOthers(type):
    """The read-only attributes that tools read on SGLang's registry, computed at each access."""

    @property
    def _hooks(cls) -> Mapping[str, tuple[tuple[HookType, Callable[..., Any], HookSource | None], ...]]:
        """Dotted target -> (type, hook, source) of each hook."""
        hooks: dict[str, tuple[Any, ...]] = {}
        for one, _ in _engine.registrations():
            source = HookSource(*one.origin[:2]) if one.origin else None
            hooks[one.key] = (*hooks.get(one.key, ()), (one.type, one.hook, source))
        return MappingProxyType(hooks)

    @property
    def _patched(cls) -> frozenset[str]:
        """The dotted targets with a hook in force."""
        return frozenset(one.key for one, _ in _engine.registrations() if one.state == "applied")


class HookRegistry(metaclass=_ReadByOthers):
    """All hooks of this process. Class methods only, as in SGLang; safe under threads."""

    @classmethod
    def register(
        cls,
        target: str,
        hook: Callable[..., Any],
        hook_type: HookType = HookType.AFTER,
        *,
        source: HookSource | PluginOrigin | None = None,
        required: bool = True,
        order: int = 0,
        without: str = "",
        on_failure: Callable[[str], None] | None = None,
    ) -> None:
        """Hook a function, method or class.

        Args:
            target: ``pkg.mod:Class.attr`` or ``pkg.mod.Class.attr``; both are the same target.
            hook: see `HookType` for its signature; a class with REPLACE takes a class's place.
            source: the plugin; by default the one that is being loaded.
            required: a target that does not exist, or that the hook does not fit, is an error; False reports it only.
            order: lower is further inside; hooks of one order are nested as they were registered, the first innermost.
            without: what happens where the hook cannot be applied, in the operator's words; said with the failure.
            on_failure: called with the cause where a hook that is not required cannot be applied, instead of a warning.

        Raises HookTargetError for a malformed target, HookSignatureError (a TypeError) for a hook that is no callable
        or a class without REPLACE. After `apply_hooks()` it also raises the errors of that.
        """
        parsed = parse(target)
        origin = PluginOrigin(*source[:2]) if isinstance(source, HookSource) else source or current_source()
        registration = Registration(
            parsed.key, target, hook, hook_type, origin, required, order, without, on_failure
        )
        collected = _collected.get()
        if collected is None:
            _engine.add(registration)
        else:
            collected.append(registration)

    @classmethod
    @contextmanager
    def collecting(cls) -> Iterator[list[Registration]]:
        """Collect the registrations of this thread in a list instead. They are never applied."""
        collected: list[Registration] = []
        token = _collected.set(collected)
        try:
            yield collected
        finally:
            _collected.reset(token)

    @classmethod
    def unregister(cls, target: str, hook: Callable[..., Any], hook_type: HookType | None = None) -> bool:
        """Drop a hook and take it out of force; False where it was not registered. Without a type: of every type."""
        key = parse(target).key
        return bool(
            _engine.discard(lambda one: one.key == key and one.hook == hook and hook_type in (None, one.type))
        )

    @classmethod
    def withdraw(cls, origin: PluginOrigin) -> int:
        """Drop and undo all hooks of a plugin that failed half way; returns their number."""
        return _engine.discard(lambda one: one.origin == origin)

    @classmethod
    def apply_hooks(cls) -> None:
        """Put all hooks in force: now where the module is loaded, else when it has run. May be called again.

        Raises HookTargetError with every required target that does not exist, read from the source of modules that are
        not loaded; HookSignatureError or HookError for required hooks that do not fit. All others are in force
        then. A required target that turns out missing when its module runs raises from that import.
        """
        _engine.apply()

    @classmethod
    def reset(cls) -> None:
        """Forget all hooks and restore every original."""
        _engine.reset()

    @classmethod
    def report(cls) -> list[HookRecord]:
        """The state of each hook in this process, in the order of registration; JSON-able."""
        return [record(one, target) for one, target in _engine.registrations()]

    @classmethod
    def when_settled(cls, listener: Callable[[], None]) -> None:
        """Call `listener()` whenever the state of hooks may have changed, e.g. when a watched module has run."""
        _engine.when_settled(listener)

    @classmethod
    def late_errors_as(cls, convert: Callable[[HookError], BaseException]) -> None:
        """Raise `convert(error)` where a required hook fails as its module runs: for hosts that drop import errors."""
        _engine.late_error = convert

    @classmethod
    def is_applied(cls, target: str) -> bool:
        """Are hooks in force on the target, and none of its hooks pending or refused?"""
        stack = [one for one in _engine.stack(parse(target).key) if not one.overridden]
        return bool(stack) and all(one.state == "applied" for one in stack)


def plugin_hook(
    target: str,
    type: HookType = HookType.AFTER,
    *,
    source: HookSource | PluginOrigin | None = None,
    required: bool = True,
    order: int = 0,
    without: str = "",
    on_failure: Callable[[str], None] | None = None,
) -> Callable[[_Hook], _Hook]:
    """Decorator form of `HookRegistry.register`; returns the function or class unchanged."""

    def decorate(hook: _Hook) -> _Hook:
        HookRegistry.register(
            target,
            hook,
            type,
            source=source,
            required=required,
            order=order,
            without=without,
            on_failure=on_failure,
        )
        return hook

    return decorate


sglang_hook = plugin_hook
"""The name of `plugin_hook` in the documents of SGLang's framework."""
