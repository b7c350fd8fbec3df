"""What is said about hooks that could not be applied: one error for required ones, warnings for the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sglang_platform.core.errors import HookError, HookTargetError
from sglang_platform.core.hooks.registration import Registration

if TYPE_CHECKING:
    import logging

__all__ = ["error_of", "fail", "log", "warn_of_two"]


def fail(registrations: Iterable[Registration], error: type[HookError], why: str, where: str) -> None:
    """Note that these hooks on `where` are not applied, and why; warn once of those that nobody requires."""
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
    """One error for all required hooks that failed, each with its plugin and cause; None where none did."""
    failed = [one for one in registrations if one.state == "failed" and one.required and not one.overridden]
    if not failed:
        return None
    missing = [one for one in failed if one.error is HookTargetError]
    error = HookTargetError if missing else failed[0].error or HookError
    origins = {one.origin for one in failed}
    return error(
        _what(len(missing), len(failed)),
        plugin=origins.pop() if len(origins) == 1 else None,
        why="\n".join(f"{one.spelling}: {one.why} ({one.label}){_without(one)}" for one in failed),
        fix=_FIXES.get(error, _FIXES[HookError]),
    )


def _without(registration: Registration) -> str:
    return f"; without it {registration.without}" if registration.without else ""


def _what(missing: int, failed: int) -> str:
    if missing == failed:
        return f"{failed} required hook target{'s do' if failed > 1 else ' does'} not exist"
    return f"{failed} required hook{'s' if failed > 1 else ''} cannot be applied"


_FIXES: dict[type[HookError], str] = {
    HookTargetError: "correct the name, or register the hook with required=False if this host version may lack it",
    HookError: "change the hook, or register it with required=False to have it reported only",
}


def warn_of_two(target: str, earlier: Sequence[Registration], later: Registration) -> None:
    """Warn that `later` replaces what the last of `earlier` replaces already, if there is one."""
    if earlier:
        log().warning("%s is replaced twice: the %s overrides the %s", target, later.label, earlier[-1].label)


def log() -> logging.Logger:
    """The logger of all hook messages."""
    import logging  # only where there is a message: most processes register hooks and have none

    return logging.getLogger("sglang_platform.core.hooks")
