"""What stands between the parentheses of a `def`, as far as a generated frame can have the same.

A fitted frame (`frames`) declares the parameters of its target and calls each part with them by position. Nobody can
tell that from the call that came, as long as each part takes the same parameters with the very same defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType, MethodType
from typing import Any, NamedTuple

__all__ = ["Declaration", "cannot_tell", "declaration_for_frame"]

_STAR_ARGUMENTS = 0x4 | 0x8  # `*args` and `**kwargs` among the flags of a code object
_CONSTANTS = (type(None), bool, int, float, complex, str, bytes, type(...))


class Declaration(NamedTuple):
    """The parameters of a function that has neither ``*args`` nor ``**kwargs``. Defaults are compared by identity."""

    positional: tuple[str, ...]
    positional_only: int
    keywords: tuple[str, ...]
    defaults: tuple[Any, ...]
    keyword_defaults: dict[str, Any]

    @property
    def parameters(self) -> str:
        """As in a ``def``: ``a, b=None``. The defaults themselves belong to the function, not to its code."""
        required = len(self.positional) - len(self.defaults)
        parts = [name if i < required else f"{name}=None" for i, name in enumerate(self.positional)]
        if self.positional_only:
            parts.insert(self.positional_only, "/")
        if self.keywords:
            parts.append("*")
            parts += [f"{name}=None" if name in self.keyword_defaults else name for name in self.keywords]
        return ", ".join(parts)

    @property
    def arguments(self) -> str:
        """As in a call: ``a, b, k=k``."""
        return ", ".join([*self.positional, *(f"{name}={name}" for name in self.keywords)])


def declaration_for_frame(function: Callable[..., Any], reserved: tuple[str, ...]) -> Declaration | None:
    """The parameters of `function`, if a fitted frame can declare them. `reserved`: how the frame's own names begin.

    A default that is more than a constant rules a frame out: it may refer to something that is hooked later, and is
    another object from then on.
    """
    found = _declaration(function)
    if found is None or any(name.startswith(reserved) for name in (*found.positional, *found.keywords)):
        return None
    defaults = (*found.defaults, *found.keyword_defaults.values())
    return found if all(type(one) in _CONSTANTS for one in defaults) else None


def cannot_tell(function: Callable[..., Any], target: Declaration, given: int) -> bool:
    """Does `function` see the same in a call by `target`'s parameters as in the call that came?

    `given` counts the arguments that it gets before the target's: the result for AFTER, the original for AROUND.
    """
    found = _declaration(function)
    if found is None or len(found.positional) != given + len(target.positional):
        return False
    if {*found.keywords} != {*target.keywords}:
        return False
    pairs = zip(target.positional, found.positional[given:], strict=True)
    if any(own != name and name in target.positional for own, name in pairs):
        return False  # they stand in another order
    return _same_at_end(found.defaults, target.defaults) and all(
        name in target.keyword_defaults and value is target.keyword_defaults[name]
        for name, value in found.keyword_defaults.items()
    )


def _same_at_end(own: Sequence[Any], target: Sequence[Any]) -> bool:
    return len(own) <= len(target) and all(
        a is b for a, b in zip(reversed(own), reversed(target), strict=False)
    )


def _declaration(function: Any) -> Declaration | None:
    bound = 0
    if isinstance(function, MethodType):
        function, bound = function.__func__, 1
    if not isinstance(function, FunctionType) or function.__code__.co_flags & _STAR_ARGUMENTS:
        return None
    code = function.__code__
    names, count = code.co_varnames, code.co_argcount
    if count < bound:
        return None
    return Declaration(
        positional=names[bound:count],
        positional_only=max(0, code.co_posonlyargcount - bound),
        keywords=names[count : count + code.co_kwonlyargcount],
        defaults=function.__defaults__ or (),
        keyword_defaults=function.__kwdefaults__ or {},
    )
