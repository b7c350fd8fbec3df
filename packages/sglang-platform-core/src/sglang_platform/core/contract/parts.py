"""The check of the names in a part, made when a vendor's class is created.

A name that is nearly one that a part may override, and is not, would never be asked for: core's or SGLang's own serves
instead. A name that the vendor's own methods use is a method of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import CodeType
from typing import Any

from sglang_platform.core.contract.source import place_in_brackets
from sglang_platform.core.correction import is_plugins
from sglang_platform.core.errors import ContractError
from sglang_platform.core.spelling import nearest

__all__ = ["MisspeltOverride", "Part"]

_NEAR = 0.88


class MisspeltOverride(ContractError):
    """A part has names that are nearly names of its base class."""


class Part:
    """Base of the classes that a platform's factories return: pools, allocators, backends, runners, communicators."""

    extra_public_names: frozenset[str] = frozenset()
    """Names of the vendor's own that are nearly names of the base class, and are called from elsewhere. The sets of all
    base classes count together."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Raises MisspeltOverride with each name that is nearly one of the base class."""
        super().__init_subclass__(**kwargs)
        if not vars(cls).get("_rebased_by_host"):
            _check(cls)


def _check(cls: type) -> None:
    own = [klass for klass in cls.__mro__ if is_plugins(klass.__module__)]
    known = {name for klass in cls.__mro__ if klass not in own for name in dir(klass)}
    defined = {name for klass in own for name in vars(klass)}
    free = {name for klass in cls.__mro__ for name in vars(klass).get("extra_public_names", ())}
    problems = []
    for klass in own:
        for name, value in vars(klass).items():
            if name.startswith("__") or name in known or name in free:
                continue
            meant = _meant(name, known)
            if meant is None or meant in defined or _is_used(name, value, own):
                continue
            where = place_in_brackets(klass, name)
            problems.append(f"- {klass.__qualname__}.{name}: nothing calls it, did you mean {meant}?{where}")
    if problems:
        bases = " and ".join(klass.__name__ for klass in cls.__mro__ if Part in klass.__bases__)
        raise MisspeltOverride(
            f"{cls.__module__}.{cls.__qualname__} overrides what {bases} does not have",
            why="\n".join(problems),
            fix="use the name of the base class; list a name of your own in the class attribute extra_public_names",
        )


def _meant(name: str, known: Iterable[str]) -> str | None:
    """The name that `name` nearly is. A private name stands for no public one."""
    private = name.startswith("_")
    points = [one for one in known if not one.startswith("__") and one.startswith("_") >= private]
    letters = sorted(name)
    return next((one for one in points if sorted(one) == letters), None) or nearest(name, points, _NEAR)


def _is_used(name: str, value: Any, own: Iterable[type]) -> bool:
    """Whether another method of these classes mentions the name."""
    others = (other for klass in own for other in vars(klass).values() if other is not value)
    return any(name in code.co_names for other in others for code in _codes(other))


def _codes(value: Any) -> Iterator[CodeType]:
    """The code of a function under its descriptors, with the functions inside it."""
    for part in (value, *(getattr(value, one, None) for one in ("__func__", "fget", "fset", "func"))):
        waiting = [getattr(part, "__code__", None)]
        while waiting:
            code = waiting.pop()
            if isinstance(code, CodeType):
                yield code
                waiting += code.co_consts
