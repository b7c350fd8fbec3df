"""Reports the outcome of each hook: rows of `HookRegistry.report()`, one error for all required hooks, and warnings."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypedDict

from sglang_platform.core.errors import HookError, HookTargetError
from sglang_platform.core.hooks.registration import Registration, State

if TYPE_CHECKING:
    import logging

__all__ = ["HookRecord", "error_of", "fail", "log", "record", "warn_of_two"]


class HookRecord(TypedDict):
    """One hook's row in the report, JSON-serialisable."""

    target: str
    """``pkg.mod:Class.attr`` once the module is known, else the spelling as registered."""
    type: str
    """``before``, ``after``, ``around`` or ``replace``."""
    hook: str
    """Module and qualified name of the hook."""
    plugin: str | None
    distribution: str | None
    version: str | None
    required: bool
    order: int
    state: State
    """``pending``: its module has not been executed in this process. ``applied``: active. ``failed``: see `why`."""
    why: str | None
    unreached: list[str]
    """Names of holders that still refer to the original."""
    pid: int


def record(registration: Registration, target: str) -> HookRecord:
    origin = registration.origin
    return HookRecord(
        target=target,
        type=registration.type.value,
        hook=registration.hook_name,
        plugin=origin.name if origin else None,
        distribution=origin.distribution if origin else None,
        version=origin.version if origin else None,
        required=registration.required,
        order=registration.order,
        state=registration.state,
        why=registration.why,
        unreached=list(registration.unreached),
        pid=os.getpid(),
    )


def fail(registrations: Iterable[Registration], error: type[HookError], why: str, where: str) -> None:
    """Mark these hooks on `where` as failed, and warn once about each that is not required."""
    for one in registrations:
        known = one.state == "failed" and one.why == why
        one.fail(error, why)
        if one.required or known:
            continue
        if one.on_failure is not None:
            one.on_failure(why)
        else:
            log().warning("The %s on %s is not applied: %s%s", one.label, where, why, _without(one))


def error_of(registrations: Iterable[Registration]) -> HookError | None:
    """One error for all required hooks that failed, each with its plugin and cause; None if none failed."""
    failed = [one for one in registrations if one.state == "failed" and one.required and not one.overridden]
    if not failed:
        return None
    missing = [one for one in failed if one.error is HookTargetError]
    error = HookTargetError if missing else failed[0].error or HookError
    origins = {one.origin for one in failed}
    return error(
        _what(len(missing), len(failed)),
        plugin=origins.pop() if len(origins) == 1 else None,
        why="\n".join(f"{one.spelling}: {one.why} ({_named(one)}){_without(one)}" for one in failed),
        fix=_FIXES.get(error, _FIXES[HookError]),
    )


def _named(registration: Registration) -> str:
    """With the place of a plugin's function, which says the plugin as well."""
    from sglang_platform.core.correction import is_plugins, place_of_function  # only on errors

    hook = registration.hook
    place = place_of_function(hook) if is_plugins(str(getattr(hook, "__module__", ""))) else None
    return f"{registration.type.name} hook {registration.hook_name}, {place}" if place else registration.label


def _without(registration: Registration) -> str:
    return f"; without it {registration.without}" if registration.without else ""


def _what(missing: int, failed: int) -> str:
    if missing == failed:
        return f"{failed} required hook target{'s do' if failed > 1 else ' does'} not exist"
    return f"{failed} required hook{'s' if failed > 1 else ''} cannot be applied"


_FIXES: dict[type[HookError], str] = {
    HookTargetError: "correct the name; required=False where this host version may lack it",
    HookError: "change the hook, or register it with required=False to have it reported only",
}


def warn_of_two(target: str, earlier: Sequence[Registration], later: Registration) -> None:
    """Warn that `later` overrides the last of the `earlier` REPLACE hooks, if there is one."""
    if earlier:
        log().warning("%s is replaced twice: the %s overrides the %s", target, later.label, earlier[-1].label)


def log() -> logging.Logger:
    """The logger of all hook messages."""
    import logging  # imported lazily: most processes register hooks and log nothing

    return logging.getLogger("sglang_platform.core.hooks")
