"""The kind and the flavour of a callable, which a hook must not change.

The kind is the way in which an attribute holds its function: plain, as a classmethod, a property and so on
(`Hookable`). The flavour is the kind of result of a call: a value, a coroutine, a generator or an async generator.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple

from sglang_platform.core.hooks.types import Flavour

__all__ = ["Hookable", "flavour", "hookable", "lend_attributes"]

_CO_GENERATOR, _CO_COROUTINE, _CO_ASYNC_GENERATOR = 0x20, 0x80, 0x200


class Hookable(NamedTuple):
    """The function in an attribute to be hooked. `rebuild(wrapper)` makes an attribute of the same kind.

    For a classmethod, `function` is the function that it wraps, and `rebuild` is `classmethod`.

    `by_identity`: the attribute is a class, or an object that is not only called (a Triton kernel is launched as
    ``kernel[grid](...)``). It cannot be wrapped, only replaced by another object of its type.
    """

    function: Callable[..., Any]
    rebuild: Callable[[Callable[..., Any]], Any]
    by_identity: bool = False


def hookable(raw: Any, owner: object, name: str) -> Hookable | str:
    """The function in `raw`, an attribute from its owner's ``__dict__``; or the reason why it cannot be hooked."""
    if isinstance(raw, FunctionType):
        return Hookable(raw, _as_is)
    if isinstance(raw, type) or (callable(raw) and hasattr(type(raw), "__getitem__")):
        return Hookable(raw, _as_is, by_identity=True)
    if not isinstance(owner, type):
        return Hookable(raw, _as_is) if callable(raw) else _no_callable(raw, name)
    return _hookable_in_class(raw, owner, name)


def _hookable_in_class(raw: Any, owner: type, name: str) -> Hookable | str:
    """`hookable` for a descriptor or a callable object in a class."""
    if isinstance(raw, classmethod | staticmethod):
        if not callable(raw.__func__):
            return f"it is a {type(raw).__name__} around something that cannot be called"
        return Hookable(raw.__func__, type(raw))
    if isinstance(raw, property):
        return "it is a property without a getter" if raw.fget is None else Hookable(raw.fget, raw.getter)
    if isinstance(raw, functools.cached_property):
        return Hookable(raw.func, _CachedPropertyLike(raw))
    binds = hasattr(type(raw), "__get__")
    if callable(raw):
        return Hookable(raw, _as_is if binds else staticmethod)
    method = raw.__get__(None, owner) if binds else None
    if isinstance(method, FunctionType):  # e.g. functools.partialmethod
        return Hookable(method, _as_is)
    return _no_callable(raw, name)


def _no_callable(raw: Any, name: str) -> str:
    return f"{name!r} is of type {type(raw).__name__}, which cannot be called"


def _as_is(wrapper: Callable[..., Any]) -> Any:
    return wrapper


class _CachedPropertyLike:
    """Makes a cached property under the same name around another function."""

    __slots__ = ("raw",)

    def __init__(self, raw: functools.cached_property[Any]) -> None:
        self.raw = raw

    def __call__(self, wrapper: Callable[..., Any]) -> Any:
        copied = copy.copy(self.raw)
        copied.func = wrapper
        return copied


def flavour(function: object) -> Flavour:
    """The flavour of a function, read from its code."""
    while isinstance(function, functools.partial):
        function = function.func
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if code is None and not isinstance(function, type):
        called = type(function).__dict__.get("__call__")
        code = getattr(called, "__code__", None)
    flags = getattr(code, "co_flags", 0)
    if flags & _CO_COROUTINE or _marked_coroutine(function):
        return "coroutine"
    if flags & _CO_ASYNC_GENERATOR:
        return "async generator"
    return "generator" if flags & _CO_GENERATOR else "plain"


def _marked_coroutine(function: object) -> bool:
    """Whether `inspect.markcoroutinefunction` (Python 3.12) marked the function."""
    return getattr(function, "_is_coroutine_mark", None) is not None and inspect.iscoroutinefunction(function)


def lend_attributes(wrapper: FunctionType, function: Callable[..., Any]) -> None:
    """Copy a callable object's public methods to the wrapper, e.g. `cache_clear` of `functools.lru_cache`."""
    for klass in type(function).__mro__[:-1]:
        for name, value in vars(klass).copy().items():
            if not name.startswith("_") and callable(value) and not hasattr(wrapper, name):
                setattr(wrapper, name, getattr(function, name))
