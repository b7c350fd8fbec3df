"""Whether a hook fits its target. Checked when the hook is applied, not when it is first called.

A caller may pass a target's arguments by position, keyword-only ones by name, and omit those with a default. A hook
that cannot take one of these calls is refused. A hook that renames a positional argument is accepted with a warning: it
fails only if a caller passes that argument by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import FunctionType, MethodType
from typing import Any, NamedTuple

from sglang_platform.core.hooks.call.kinds import Hookable, flavour
from sglang_platform.core.hooks.registration import Registration
from sglang_platform.core.hooks.types import HookType

__all__ = ["Parameters", "misfit", "parameters", "refusal", "taken_by_position_only"]

_CO_VARARGS, _CO_VARKEYWORDS = 0x4, 0x8


class Parameters(NamedTuple):
    """The parameters of a callable. `defaults` belong to the last positional ones."""

    positional: tuple[str, ...]
    positional_only: int
    keywords: tuple[str, ...]
    defaults: tuple[Any, ...]
    keyword_defaults: Mapping[str, Any]
    takes_more: bool
    takes_any_keyword: bool

    @property
    def by_name(self) -> tuple[str, ...]:
        return self.positional[self.positional_only :]

    @property
    def required(self) -> int:
        """Number of positional arguments without a default."""
        return len(self.positional) - len(self.defaults)

    @property
    def required_keywords(self) -> list[str]:
        return [name for name in self.keywords if name not in self.keyword_defaults]

    def without_first(self) -> Parameters:
        """The parameters of the bound method. A function with only `*args` has no first parameter to drop."""
        positional = self.positional[1:]
        return self._replace(
            positional=positional,
            positional_only=max(0, self.positional_only - 1),
            defaults=self.defaults[max(0, len(self.defaults) - len(positional)) :],
        )


def refusal(target: Hookable, registration: Registration) -> str | None:
    """Why this hook cannot be applied to `target` (its kind, flavour or parameters); None if it can."""
    hook, type_ = registration.hook, registration.type
    if target.by_identity:
        return _refusal_by_identity(target.function, registration)
    flavour_of_target, flavour_of_hook = flavour(target.function), flavour(hook)
    if flavour_of_hook == "coroutine" and flavour_of_target in ("plain", "generator"):
        return "the hook is async and its target is not: nobody would await it"
    if flavour_of_hook in ("generator", "async generator") and not type_.record.may_be_generator:
        return f"the {type_.name} hook is a generator and would never run"
    return misfit(target.function, hook, type_)


def _refusal_by_identity(target: object, registration: Registration) -> str | None:
    is_class = isinstance(target, type)
    if registration.type is not HookType.REPLACE:
        kind = "a class" if is_class else f"a {type(target).__name__}"
        return f"the target is {kind}, which can only be replaced; hook one of its methods"
    if is_class and not isinstance(registration.hook, type):
        return "the target is a class, and so must be its replacement"
    return None


def taken_by_position_only(
    target: Hookable, registration: Registration, raw: object, owner: object
) -> list[str]:
    """The target's arguments that this hook does not accept by name. `raw` is the target's attribute in `owner`.

    The first argument of a bound target (`self`, `cls`) is never passed by name, so it is excluded.
    """
    if target.by_identity:
        return []
    wanted, offered = parameters(_undecorated(target.function)), parameters(registration.hook)
    if wanted is None or offered is None or offered.takes_any_keyword:
        return []
    bound = isinstance(owner, type) and not isinstance(raw, staticmethod)
    names = wanted.by_name[1:] if bound and not wanted.positional_only else wanted.by_name
    taken = _by_name_after(offered, registration.type.record.given)
    return [name for name in names if name not in taken]


def misfit(target: Callable[..., Any], hook: Callable[..., Any], type_: HookType) -> str | None:
    """Why `hook` cannot take the arguments of `target`; None if it can, or if either has no readable signature."""
    wanted, offered = parameters(_undecorated(target)), parameters(hook)
    if wanted is None or offered is None:
        return None
    if wanted.takes_more and wanted.takes_any_keyword and not isinstance(_undecorated(target), FunctionType):
        return None  # the signature of `object.__init__` and similar slots is meaningless
    return _misfit_by_position(wanted, offered, type_) or _misfit_by_name(wanted, offered, type_)


def _misfit_by_position(wanted: Parameters, offered: Parameters, type_: HookType) -> str | None:
    given = type_.record.given
    room, needed = len(offered.positional), given + len(wanted.positional)
    if room < needed and not offered.takes_more:
        extra = f"the {type_.record.first} and " if given else ""
        left = ", ".join(wanted.positional[max(0, room - given) :]) or "them"
        return f"it takes {room} positional arguments, but {extra}the target's make {needed}: no place for {left}"
    if wanted.takes_more and not offered.takes_more:
        return "the target takes any number of positional arguments (*args), the hook does not"
    always = given + wanted.required
    if offered.required > always:
        names = ", ".join(offered.positional[always : offered.required])
        return f"it requires {names}, which a caller of the target may leave out"
    return None


def _misfit_by_name(wanted: Parameters, offered: Parameters, type_: HookType) -> str | None:
    if not offered.takes_any_keyword:
        if wanted.takes_any_keyword:
            return "the target takes any keyword (**kwargs), the hook does not"
        acceptable = {*_by_name_after(offered, type_.record.given), *offered.keywords}
        lost = [name for name in wanted.keywords if name not in acceptable]
        if lost:
            return f"it does not take the target's keyword {', '.join(lost)}"
    missing = [name for name in offered.required_keywords if name not in wanted.required_keywords]
    if missing:
        return f"it requires the keyword {', '.join(missing)}, which a caller of the target may leave out"
    return None


def _by_name_after(offered: Parameters, given: int) -> tuple[str, ...]:
    """The positional parameters that a hook accepts by name, after the first `given`."""
    return offered.positional[max(given, offered.positional_only) :]


def parameters(function: Callable[..., Any]) -> Parameters | None:
    """A callable's parameters; None if unknown. Read from the code object, as `inspect` may evaluate annotations."""
    if isinstance(function, MethodType):
        inner = parameters(function.__func__)
        return inner and inner.without_first()
    if isinstance(function, FunctionType):
        return _from_code(function)
    if not isinstance(function, type) and isinstance(type(function).__dict__.get("__call__"), FunctionType):
        return _from_code(type(function).__dict__["__call__"]).without_first()
    return _inspected(function)


def _from_code(function: FunctionType) -> Parameters:
    code = function.__code__
    names, count = code.co_varnames, code.co_argcount
    return Parameters(
        positional=names[:count],
        positional_only=code.co_posonlyargcount,
        keywords=names[count : count + code.co_kwonlyargcount],
        defaults=function.__defaults__ or (),
        keyword_defaults=function.__kwdefaults__ or {},
        takes_more=bool(code.co_flags & _CO_VARARGS),
        takes_any_keyword=bool(code.co_flags & _CO_VARKEYWORDS),
    )


def _inspected(function: Callable[..., Any]) -> Parameters | None:
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # built-in functions without a signature
        return None
    positional = [one for one in found if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    keywords = [one for one in found if one.kind is one.KEYWORD_ONLY]
    return Parameters(
        positional=tuple(one.name for one in positional),
        positional_only=sum(one.kind is one.POSITIONAL_ONLY for one in positional),
        keywords=tuple(one.name for one in keywords),
        defaults=tuple(one.default for one in positional if one.default is not one.empty),
        keyword_defaults={one.name: one.default for one in keywords if one.default is not one.empty},
        takes_more=any(one.kind is one.VAR_POSITIONAL for one in found),
        takes_any_keyword=any(one.kind is one.VAR_KEYWORD for one in found),
    )


def _undecorated(function: Any) -> Callable[..., Any]:
    """The innermost function behind `__wrapped__`, whose arguments a decorated function is called with."""
    for _ in range(32):
        inner = getattr(function, "__wrapped__", None)
        if inner is None or isinstance(function, type):
            break
        function = inner
    return function  # type: ignore[no-any-return]
