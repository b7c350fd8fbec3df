"""Classifies expressions that assume CUDA, or that test for it."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import NamedTuple

from sglang_platform.devtools.assumptions.site import Kind
from sglang_platform.devtools.assumptions.words import asks_for_cuda, is_device_word
from sglang_platform.devtools.source.values import dotted

__all__ = ["PlaceKind", "is_kernel", "jitted", "launched", "place_of", "says_how_to_launch"]

_LITERAL = re.compile(r"cuda(:\d*)?")
_ONLY_ASKED = ("is_available", "is_initialized", "device_count", "is_current_stream_capturing")
_LAUNCH_WORDS = {"num_warps", "num_stages", "num_ctas"}


class PlaceKind(NamedTuple):
    kind: Kind
    form: str
    goes_on: bool = False
    """True if its subexpressions are examined too."""


def place_of(node: ast.expr, torch_cuda: Mapping[str, str], *, in_test: bool) -> PlaceKind | None:
    """The kind of place that an expression itself is; None for most. `torch_cuda`: the names that imports bind to
    `torch.cuda` or to a member of it."""
    match node:
        case ast.Attribute(attr=attr):
            name = dotted(node)
            if name is not None and (found := _of_torch(name, torch_cuda)) is not None:
                return found
            if asks_for_cuda(attr):
                return PlaceKind("gate", "test" if in_test else "flag", goes_on=True)
        case ast.Name(id=name):
            if name in torch_cuda:
                return _of_torch((name,), torch_cuda)
            if asks_for_cuda(name) and isinstance(node.ctx, ast.Load):
                return PlaceKind("gate", "test" if in_test else "flag")
        case ast.Call(func=ast.Attribute(attr="cuda")):
            if dotted(node.func) != ("torch", "cuda"):
                return PlaceKind("torch.cuda", "move", goes_on=True)
        case ast.Call(func=ast.Attribute(attr="startswith"), args=[ast.Constant(value=word)]) if _is_cuda(
            word
        ):
            return PlaceKind("gate", "test")
        case ast.Compare(left=left, comparators=rights):
            if any(_names_cuda(one) for one in (left, *rights)):
                return PlaceKind("gate", "test")
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            if _is_list_of_devices(parts):
                return PlaceKind("gate", "list")
        case ast.Dict(keys=keys):
            if _is_list_of_devices([one for one in keys if one is not None]):
                return PlaceKind("gate", "table")
        case ast.Constant(value=value):
            if _is_cuda(value):
                return PlaceKind("torch.cuda", "literal")
    return None


def _of_torch(name: tuple[str, ...], torch_cuda: Mapping[str, str]) -> PlaceKind | None:
    whole = (*torch_cuda[name[0]].split("."), *name[1:]) if name[0] in torch_cuda else name
    if whole == ("torch", "version", "cuda"):
        return PlaceKind("gate", "test")
    if whole[:2] != ("torch", "cuda"):
        return None
    if whole[-1] in _ONLY_ASKED[:2]:
        return PlaceKind("gate", "test")
    return PlaceKind("torch.cuda", "call" if len(whole) > 2 else "module")


def _is_cuda(value: object) -> bool:
    return isinstance(value, str) and _LITERAL.fullmatch(value) is not None


def _names_cuda(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=value):
            return _is_cuda(value)
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return any(_names_cuda(one) for one in parts) and all(
                isinstance(one, ast.Constant) and is_device_word(one.value) for one in parts
            )
        case ast.Call(func=func, args=[one]):
            return (dotted(func) or ("",))[-1] == "device" and _names_cuda(one)
    return False


def _is_list_of_devices(parts: list[ast.expr]) -> bool:
    """True for two or more device types, CUDA among them."""
    words = [one.value for one in parts if isinstance(one, ast.Constant) and is_device_word(one.value)]
    return len(parts) > 1 and len(words) == len(parts) and any(_is_cuda(one) for one in words)


def jitted(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """True for a Triton kernel, by its decorator."""
    for one in node.decorator_list:
        name = dotted(one.func if isinstance(one, ast.Call) else one)
        if (
            name is not None
            and name[-1] in ("jit", "jit_fuser")
            and name[0] not in ("torch", "numba", "cute", "jax")
        ):
            return True
    return False


def is_kernel(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """True if the body is compiled for the device, by Triton or another kernel language."""
    return jitted(node) or any(
        (dotted(one.func if isinstance(one, ast.Call) else one) or ("",))[0] in ("cute", "gluon", "tilelang")
        for one in node.decorator_list
    )


def launched(node: ast.Call) -> str | None:
    """The kernel's last name in ``kernel[grid](...)``; None for any other call."""
    if not isinstance(node.func, ast.Subscript):
        return None
    name = dotted(node.func.value)
    return None if name is None else name[-1]


def says_how_to_launch(node: ast.Call) -> bool:
    """True if the call itself shows a launch: by its grid, or by a keyword that only launches take."""
    index = node.func.slice if isinstance(node.func, ast.Subscript) else None
    name = (dotted(index) or ("",))[-1] if isinstance(index, ast.expr) else ""
    return (
        "grid" in name
        or isinstance(index, ast.Lambda)
        or any(one.arg in _LAUNCH_WORDS for one in node.keywords)
    )
