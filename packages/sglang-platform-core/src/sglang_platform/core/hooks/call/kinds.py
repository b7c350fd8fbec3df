"""Keeping a callable's kind: what is wrapped inside a class attribute or module name, and how it is put back."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, Literal, NamedTuple

__all__ = ["Flavour", "Shape", "flavour", "lend_attributes", "shape"]

Flavour = Literal["plain", "coroutine", "generator", "async generator"]

_CO_GENERATOR, _CO_COROUTINE, _CO_ASYNC_GENERATOR = 0x20, 0x80, 0x200


class Shape(NamedTuple):
    """The callable inside `raw`, and `rebuild(wrapper)`, which gives the wrapper the same kind.

    `by_identity`: `raw` is a class, or an object used in other ways than by calling it (a Triton kernel launched as
    ``kernel[grid](...)``); it cannot be wrapped, only another object put in its place.
    """

    function: Callable[..., Any]
    rebuild: Callable[[Callable[..., Any]], Any]
    by_identity: bool = False


def _as_is(wrapper: Callable[..., Any]) -> Any:
    return wrapper


def shape(raw: Any, owner: object, name: str) -> Shape | str:
    """The shape of an attribute as it stands in its owner's ``__dict__``; a string says why it cannot be hooked."""
    in_class = isinstance(owner, type)
    if isinstance(raw, FunctionType):
        return Shape(raw, _as_is)
    if isinstance(raw, type) or (callable(raw) and hasattr(type(raw), "__getitem__")):
        return Shape(raw, _as_is, by_identity=True)
    if in_class and isinstance(raw, classmethod | staticmethod):
        if not callable(raw.__func__):
            return f"it is a {type(raw).__name__} around something that cannot be called"
        return Shape(raw.__func__, type(raw))
    if in_class and isinstance(raw, property):
        return "it is a property without a getter" if raw.fget is None else Shape(raw.fget, raw.getter)
    if in_class and isinstance(raw, functools.cached_property):
        return Shape(raw.func, _CachedPropertyLike(raw))
    if callable(raw):
        binds = not in_class or hasattr(type(raw), "__get__")
        return Shape(raw, _as_is if binds else staticmethod)
    method = raw.__get__(None, owner) if in_class and hasattr(type(raw), "__get__") else None
    if isinstance(method, FunctionType):  # functools.partialmethod and its like
        return Shape(method, _as_is)
    return f"{name!r} is of type {type(raw).__name__}, which cannot be called"


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
    """What a call of the function gives: its result, a coroutine, a generator or an async generator."""
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
    """`inspect.markcoroutinefunction`, Python 3.12."""
    return getattr(function, "_is_coroutine_mark", None) is not None and inspect.iscoroutinefunction(function)


def lend_attributes(wrapper: FunctionType, function: Callable[..., Any]) -> None:
    """Give the wrapper the public methods of a callable object, such as `cache_clear` of `functools.lru_cache`."""
    for klass in type(function).__mro__[:-1]:
        for name, value in vars(klass).items():
            if not name.startswith("_") and callable(value) and not hasattr(wrapper, name):
                setattr(wrapper, name, getattr(function, name))
