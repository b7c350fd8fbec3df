"""The calls of a function or method in a host's source, and whether a signature accepts them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from typing import NamedTuple

from sglang_platform.devtools.source.tree import SourceTree
from sglang_platform.devtools.source.values import dotted, shortened

__all__ = ["Call", "call_of", "calls_of", "first_not_taken", "taken_apart"]

_LONGEST = 180


class Call(NamedTuple):
    """One call in the source. `is_open`: it passes `*args` or `**kwargs`, so more arguments may follow."""

    place: str
    text: str
    positional: int
    keywords: tuple[str, ...]
    is_open: bool
    receiver: tuple[str, ...] | None
    """The dotted name before the last dot; () for a plain function, None for an expression."""

    def __str__(self) -> str:
        return f"{self.text} ({self.place})"

    def is_taken_by(self, signature: inspect.Signature) -> bool:
        return self.refused_by(signature) is None

    def refused_by(self, signature: inspect.Signature) -> str | None:
        """Python's error message if a signature rejects the call; None if it accepts it."""
        given = [None] * self.positional
        try:
            (signature.bind_partial if self.is_open else signature.bind)(
                *given, **dict.fromkeys(self.keywords)
            )
        except TypeError as error:
            return str(error)
        return None


def calls_of(host: SourceTree, name: str, *, near: str = "") -> Iterator[Call]:
    """Every call of a method or function of this name, tests left out."""
    for module_name in host.containing(f"{name}(".encode(), near=near):
        module = host.module(module_name)
        for node in module.nodes if module is not None else ():
            if isinstance(node, ast.Call) and _called(node) == name:
                yield call_of(node, f"{host.path(module_name)}:{node.lineno}")


def taken_apart(host: SourceTree, name: str) -> Iterator[tuple[int, Call]]:
    """The number of values and the call of each ``a, b = x.name(...)``."""
    for module_name in host.containing(f"{name}(".encode()):
        module = host.module(module_name)
        for node in module.nodes if module is not None else ():
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.targets[0], ast.Tuple)
                and not any(isinstance(one, ast.Starred) for one in node.targets[0].elts)
                and isinstance(node.value, ast.Call)
                and isinstance(node.value.func, ast.Attribute)
                and node.value.func.attr == name
            ):
                call = call_of(node.value, f"{host.path(module_name)}:{node.lineno}")
                text = f"{ast.unparse(node.targets[0])} = {call.text}"
                yield len(node.targets[0].elts), call._replace(text=text)


def first_not_taken(
    host: SourceTree, name: str, target: inspect.Signature, signature: inspect.Signature, owner: str | None
) -> Call | None:
    """The first call that `target` accepts and `signature` does not. `owner`: the class of a method, in which case both
    signatures are without `self`. Calls in the host's code for built-in devices come last."""
    of_a_device = None
    for one in calls_of(host, name):
        if bool(owner) == (one.receiver == ()):
            continue
        if owner and one.receiver and one.receiver[-1] == owner and one.positional:
            one = one._replace(positional=one.positional - 1)  # Class.method(self, ...)
        if one.is_taken_by(target) and not one.is_taken_by(signature):
            if "/hardware_backend/" not in one.place:
                return one
            of_a_device = of_a_device or one
    return of_a_device


def _called(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def call_of(node: ast.Call, place: str) -> Call:
    """One call; `place`: ``file:line``."""
    text = " ".join(ast.unparse(node).split())
    return Call(
        place,
        shortened(text, _LONGEST),
        sum(not isinstance(one, ast.Starred) for one in node.args),
        tuple(one.arg for one in node.keywords if one.arg is not None),
        any(isinstance(one, ast.Starred) for one in node.args)
        or any(one.arg is None for one in node.keywords),
        dotted(node.func.value) if isinstance(node.func, ast.Attribute) else (),
    )
