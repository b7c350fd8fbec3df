"""`HookRegistry`: SGLang's interface for hooks, with added keywords such as `source`, `required` and `order`::

    from sglang_platform.core import HookRegistry, HookType, plugin_hook

    @plugin_hook("sglang.srt.managers.scheduler:Scheduler.get_next_batch_to_run", type=HookType.AFTER)
    def log_batch(batch, scheduler, *args, **kwargs):
        print(batch)

Registering imports nothing. `load_plugins()` calls `apply_hooks()` after the last plugin. From then on a target is
hooked as soon as its module has been executed, and a hook registered later takes effect at once.
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
    """Attribute the hooks registered inside to this plugin. `load_plugins()` enters it around each plugin's run."""
    token = _source.set(origin)
    try:
        yield
    finally:
        _source.reset(token)


def current_source() -> PluginOrigin | None:
    """The plugin that core or the host's loader is running now; None if neither is."""
    return _source.get() or plugin_run_by_host()


def with_source_of_now(call: Callable[_P, None]) -> Callable[_P, None]:
    """Wrap `call` so that hooks it registers later are attributed to the plugin that is running now."""
    origin = current_source()

    @wraps(call)
    def made_later(*args: _P.args, **kwargs: _P.kwargs) -> None:
        with plugin_source(origin):
            call(*args, **kwargs)

    return made_later


class _ReadByOthers(type):
    """Metaclass with the read-only attributes that tools read on SGLang's registry, computed at each access."""

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
        """The dotted targets with an applied hook."""
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
            source: the plugin; by default the plugin that is being loaded.
            required: if True, a missing target or a hook that does not fit is an error; if False, it is only reported.
            order: lower is further inside; hooks of equal order nest in order of registration, the first innermost.
            without: the consequence for the operator if the hook cannot be applied; appended to the failure message.
            on_failure: called with the cause, instead of a warning, if a hook that is not required cannot be applied.

        Raises HookTargetError for a malformed target, HookSignatureError (a TypeError) for a hook that is not callable
        or is a class without REPLACE. After `apply_hooks()` it also raises the errors that `apply_hooks()` raises.
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
        """Collect this thread's registrations in a list instead of registering them. They are never applied."""
        collected: list[Registration] = []
        token = _collected.set(collected)
        try:
            yield collected
        finally:
            _collected.reset(token)

    @classmethod
    def unregister(cls, target: str, hook: Callable[..., Any], hook_type: HookType | None = None) -> bool:
        """Remove a hook and undo it; False if it was not registered. Without `hook_type`, hooks of every type."""
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
        """Apply all hooks: now if the module is loaded, else once it has been executed. May be called again.

        Raises HookTargetError with every required target that is missing (modules that are not loaded are checked in
        their source), HookSignatureError or HookError for required hooks that do not fit. All other hooks are applied
        even then. A required target that turns out missing when its module runs raises from that import.
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
        """Call `listener()` whenever the state of hooks may have changed, e.g. after a watched module was executed."""
        _engine.when_settled(listener)

    @classmethod
    def late_errors_as(cls, convert: Callable[[HookError], BaseException]) -> None:
        """Raise `convert(error)` if a required hook fails during an import, for hosts that swallow import errors."""
        _engine.late_error = convert

    @classmethod
    def is_applied(cls, target: str) -> bool:
        """True if the target has hooks and all of them are applied."""
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
"""Alias of `plugin_hook`: its name in the documentation of SGLang's framework."""
