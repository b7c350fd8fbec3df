"""Why a hook cannot go on a target: its kind, its flavour or its parameters do not fit."""

from __future__ import annotations

from sglang_platform.core.hooks.call.kinds import Hookable, flavour
from sglang_platform.core.hooks.call.signatures import by_position_only, misfit
from sglang_platform.core.hooks.registration import HookType, Registration

__all__ = ["refusal", "taken_by_position_only"]


def refusal(target: Hookable, registration: Registration) -> str | None:
    """Why this hook cannot go on `target`; None where it can."""
    hook, type_ = registration.hook, registration.type
    if target.by_identity:
        return _refusal_by_identity(target.function, registration)
    flavour_of_target, flavour_of_hook = flavour(target.function), flavour(hook)
    if flavour_of_hook == "coroutine" and flavour_of_target in ("plain", "generator"):
        return "the hook is async and its target is not: nobody would await it"
    observes = type_ not in (HookType.AROUND, HookType.REPLACE)
    if observes and flavour_of_hook in ("generator", "async generator"):
        return f"a {type_.name} hook that is a generator would never run"
    return misfit(target.function, hook, type_)


def taken_by_position_only(
    target: Hookable, registration: Registration, raw: object, owner: object
) -> list[str]:
    """The arguments that this hook on `target` cannot take by name. `raw` in `owner` is the target's attribute."""
    if target.by_identity:
        return []
    bound = isinstance(owner, type) and not isinstance(raw, staticmethod)
    return by_position_only(target.function, registration.hook, registration.type, bound)


def _refusal_by_identity(target: object, registration: Registration) -> str | None:
    is_class = isinstance(target, type)
    if registration.type is not HookType.REPLACE:
        kind = "a class" if is_class else f"a {type(target).__name__}"
        return f"the target is {kind}, which can only be replaced; hook one of its methods"
    if is_class and not isinstance(registration.hook, type):
        return "the target is a class, and so must be its replacement"
    return None
