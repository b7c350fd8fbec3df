"""What is said about hooks that could not be applied: one error for required ones, warnings for the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sglang_platform.core.errors import HookError, HookTargetError
from sglang_platform.core.hooks.registration import Registration

if TYPE_CHECKING:
    import logging

__all__ = ["log", "raise_failures", "warn_of_failure", "warn_of_two"]


def raise_failures(registrations: Iterable[Registration]) -> None:
    """One error for all required hooks that failed, each with its plugin and cause."""
    failed = [one for one in registrations if one.state == "failed" and one.required and not one.overridden]
    if not failed:
        return
    origins = {one.origin for one in failed}
    missing = [one for one in failed if one.error is HookTargetError]
    error = HookTargetError if missing else failed[0].error or HookError
    lines = [f"{one.spelling}: {one.why} ({one.label})" for one in failed]
    what = (
        f"{len(missing)} required hook target{'s do' if len(missing) > 1 else ' does'} not exist"
        if len(missing) == len(failed)
        else f"{len(failed)} required hook{'s' if len(failed) > 1 else ''} cannot be applied"
    )
    raise error(
        what,
        plugin=origins.pop() if len(origins) == 1 else None,
        why="\n".join(lines),
        fix=_FIXES.get(error, _FIXES[HookError]),
    )


_FIXES: dict[type[HookError], str] = {
    HookTargetError: "correct the name, or register the hook with required=False if this host version may lack it",
    HookError: "change the hook, or register it with required=False to have it reported only",
}


def warn_of_two(target: str, earlier: list[Registration], later: Registration) -> None:
    if earlier:
        log().warning("%s is replaced twice: the %s overrides the %s", target, later.label, earlier[-1].label)


def warn_of_failure(one: Registration, where: str) -> None:
    if not one.required:
        log().warning("The %s on %s is not applied: %s", one.label, where, one.why)


def log() -> logging.Logger:
    """The logger of all hook messages; `logging` is only imported once there is one."""
    import logging

    return logging.getLogger("sglang_platform.core.hooks")
