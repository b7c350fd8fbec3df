"""Can a hook take every call that its target can take? Checked when the hook is applied, not when it is first called.

A target's arguments may come by position, and keyword-only ones by name; arguments with a default may be left out. A
hook that cannot take one of those calls is refused. A hook that names a positional argument differently is not: it
works unless somebody passes that argument by name, which is said as a warning.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, NamedTuple

from sglang_platform.core.hooks.registration import HookType

__all__ = ["by_position_only", "misfit"]

_CO_VARARGS, _CO_VARKEYWORDS = 0x4, 0x8
_GIVEN_FIRST = {HookType.AFTER: 1, HookType.AROUND: 1}
"""How many arguments a hook gets before the target's: the result, or the original."""


class Parameters(NamedTuple):
    """What a callable takes. `required` counts the positional ones without a default."""

    positional: tuple[str, ...]
    by_name: tuple[str, ...]
    required: int
    takes_more: bool
    keyword_only: dict[str, bool]
    takes_any_keyword: bool

    def without_first(self, count: int) -> Parameters:
        return self._replace(
            positional=self.positional[count:],
            by_name=tuple(name for name in self.by_name if name not in self.positional[:count]),
            required=max(0, self.required - count),
        )


def misfit(target: Callable[..., Any], hook: Callable[..., Any], type_: HookType) -> str | None:
    """Why `hook` cannot take the arguments of `target`; None where it can, or where one of them does not tell."""
    wanted, offered = parameters(_undecorated(target)), parameters(hook)
    if wanted is None or offered is None:
        return None
    if wanted.takes_more and wanted.takes_any_keyword and not isinstance(_undecorated(target), FunctionType):
        return None  # the declared signature of `object.__init__` and its like says nothing
    return _misfit_by_position(wanted, offered, type_) or _misfit_by_name(wanted, offered, type_)


def _misfit_by_position(wanted: Parameters, offered: Parameters, type_: HookType) -> str | None:
    given = _GIVEN_FIRST.get(type_, 0)
    room, needed = len(offered.positional), given + len(wanted.positional)
    if room < needed and not offered.takes_more:
        extra = {HookType.AFTER: "the result and ", HookType.AROUND: "the original and "}.get(type_, "")
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
        acceptable = {*offered.by_name[_GIVEN_FIRST.get(type_, 0) :], *offered.keyword_only}
        lost = [name for name in wanted.keyword_only if name not in acceptable]
        if lost:
            return f"it does not take the target's keyword {', '.join(lost)}"
    always = {name for name, required in wanted.keyword_only.items() if required}
    missing = [name for name, required in offered.keyword_only.items() if required and name not in always]
    if missing:
        return f"it requires the keyword {', '.join(missing)}, which a caller of the target may leave out"
    return None


def by_position_only(
    target: Callable[..., Any], hook: Callable[..., Any], type_: HookType, bound: bool
) -> list[str]:
    """The target's arguments that the hook does not take by name.

    The first one of a `bound` target (`self`, `cls`) never comes by name, so it is not among them.
    """
    wanted, offered = parameters(_undecorated(target)), parameters(hook)
    if wanted is None or offered is None or offered.takes_any_keyword:
        return []
    names = wanted.by_name[1:] if bound and wanted.positional[:1] == wanted.by_name[:1] else wanted.by_name
    taken = offered.by_name[_GIVEN_FIRST.get(type_, 0) :]
    return [name for name in names if name not in taken]


def parameters(function: Callable[..., Any]) -> Parameters | None:
    """Read from the code object where there is one, because `inspect` might evaluate annotations."""
    if isinstance(function, MethodType):
        inner = parameters(function.__func__)
        return inner and (inner.without_first(1) if inner.positional else inner)
    if isinstance(function, FunctionType):
        return _from_code(function)
    if not isinstance(function, type) and isinstance(type(function).__dict__.get("__call__"), FunctionType):
        return _from_code(type(function).__dict__["__call__"]).without_first(1)
    return _inspected(function)


def _from_code(function: FunctionType) -> Parameters:
    code = function.__code__
    names = code.co_varnames
    count = code.co_argcount
    keywords = names[count : count + code.co_kwonlyargcount]
    defaults = function.__kwdefaults__ or {}
    return Parameters(
        positional=names[:count],
        by_name=names[code.co_posonlyargcount : count],
        required=count - len(function.__defaults__ or ()),
        takes_more=bool(code.co_flags & _CO_VARARGS),
        keyword_only={name: name not in defaults for name in keywords},
        takes_any_keyword=bool(code.co_flags & _CO_VARKEYWORDS),
    )


def _inspected(function: Callable[..., Any]) -> Parameters | None:
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # built-in functions without a signature
        return None
    positional = [one for one in found if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    return Parameters(
        positional=tuple(one.name for one in positional),
        by_name=tuple(one.name for one in positional if one.kind is one.POSITIONAL_OR_KEYWORD),
        required=sum(one.default is one.empty for one in positional),
        takes_more=any(one.kind is one.VAR_POSITIONAL for one in found),
        keyword_only={one.name: one.default is one.empty for one in found if one.kind is one.KEYWORD_ONLY},
        takes_any_keyword=any(one.kind is one.VAR_KEYWORD for one in found),
    )


def _undecorated(function: Any) -> Callable[..., Any]:
    """A decorator that kept `__wrapped__` is called with the arguments of what it wraps."""
    for _ in range(32):
        inner = getattr(function, "__wrapped__", None)
        if inner is None or isinstance(function, type):
            break
        function = inner
    return function  # type: ignore[no-any-return]
