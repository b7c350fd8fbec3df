"""The record of one `register()` call: the hook, its target, its plugin, and its state."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from sglang_platform.core.errors import HookError, HookSignatureError, PluginOrigin
from sglang_platform.core.hooks.types import HookType
from sglang_platform.core.spelling import shown

__all__ = ["HookSource", "Registration", "State", "stacking"]

State = Literal["pending", "applied", "failed"]
_serials = itertools.count()


class HookSource(NamedTuple):
    """SGLang's type for the origin of a hook; accepted wherever a `PluginOrigin` is."""

    plugin_name: str
    dist_name: str | None = None


class Registration:
    """One hook on one target. Only `patching` changes its state: `state`, `why`, `error`, `unreached`, `overridden`."""

    def __init__(
        self,
        key: str,
        spelling: str,
        hook: Callable[..., Any],
        type_: HookType,
        origin: PluginOrigin | None,
        required: bool,
        order: int,
        without: str = "",
        on_failure: Callable[[str], None] | None = None,
    ) -> None:
        if not callable(hook):
            raise HookSignatureError(
                f"The hook on {spelling} is not callable: {shown(hook)}",
                plugin=origin,
                fix="register a function, or a class with HookType.REPLACE",
            )
        if not isinstance(type_, HookType):
            raise HookError(
                f"The hook on {spelling} has the type {shown(type_)}",
                plugin=origin,
                fix="use one of " + ", ".join(f"HookType.{one.name}" for one in HookType),
            )
        if isinstance(hook, type) and type_ is not HookType.REPLACE:
            raise HookSignatureError(
                f"The class {hook.__qualname__} cannot be a {type_.name} hook on {spelling}",
                plugin=origin,
                why="a class as hook takes the target's place",
                fix="use HookType.REPLACE, or register a function",
            )
        self.key, self.spelling, self.hook, self.hook_name = key, spelling, hook, _name_of(hook)
        self.type, self.origin, self.required, self.order = type_, origin, required, order
        self.without, self.on_failure = without, on_failure
        self.serial = next(_serials)
        self.state: State = "pending"
        self.why: str | None = None
        self.error: type[HookError] | None = None
        self.unreached: tuple[str, ...] = ()
        self.overridden = False

    @property
    def label(self) -> str:
        """For messages, e.g. ``AFTER hook my_plugin.log of plugin my_plugin (my-dist 1.0)``."""
        owner = f" of plugin {self.origin}" if self.origin is not None else ""
        return f"{self.type.name} hook {self.hook_name}{owner}"

    def repeats(self, earlier: Registration) -> bool:
        """Whether this registration duplicates `earlier`, which has the same target and type and has not failed."""
        mine = (self.hook, self.origin, self.required, self.order)
        return (
            mine == (earlier.hook, earlier.origin, earlier.required, earlier.order)
            and earlier.state != "failed"
        )

    def pend(self, why: str) -> None:
        self.state, self.why, self.error, self.unreached = "pending", why, None, ()

    def apply(self) -> None:
        self.state, self.why, self.error = "applied", None, None

    def fail(self, error: type[HookError], why: str) -> None:
        self.state, self.why, self.error, self.unreached = "failed", why, error, ()


def _name_of(hook: Callable[..., Any]) -> str:
    module = getattr(hook, "__module__", None)
    name = getattr(hook, "__qualname__", None) or shown(hook)
    return f"{module}.{name}" if module else name


def stacking(registration: Registration) -> tuple[bool, int, int]:
    """Sort key of a stack of hooks, innermost first: REPLACE, then by `order`, then in order of registration."""
    return (registration.type is not HookType.REPLACE, registration.order, registration.serial)
