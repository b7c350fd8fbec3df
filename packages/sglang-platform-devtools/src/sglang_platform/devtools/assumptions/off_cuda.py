"""The truth value of a host condition on a device that the host does not know by name and that has no Triton."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from sglang_platform.devtools.assumptions.words import (
    is_device_word,
    is_false_off_cuda,
    is_true_off_cuda,
)
from sglang_platform.devtools.source.conditions import TRY, decided
from sglang_platform.devtools.source.values import dotted

__all__ = ["holds", "never_passes", "truth_of_name"]

_IS_AVAILABLE = ("is_available", "device_count", "is_initialized")

Flags = Mapping[str, bool]
"""The names of this body whose truth value off CUDA is known, with that value."""


def holds(test: ast.expr, flags: Flags) -> bool | None:
    """The truth value of a condition off CUDA; None if it depends on more than the device."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = holds(operand, flags)
            return None if inner is None else not inner
        case ast.BoolOp(op=op, values=values):
            answers = [holds(one, flags) for one in values]
            wanted = isinstance(op, ast.Or)  # the value that short-circuits
            if wanted in answers:
                return wanted
            return (not wanted) if all(one is (not wanted) for one in answers) else None
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _compared(left, op, right)
        case ast.NamedExpr(value=value):
            return holds(value, flags)
        case ast.Call(func=ast.Name(id="bool"), args=[inner]):
            return holds(inner, flags)
        case ast.Call(func=ast.Attribute(attr="startswith"), args=[ast.Constant(value=word)]):
            return False if is_device_word(str(word).rstrip(":")) else None
        case ast.Call(func=func):
            return truth_of_name(dotted(func), flags)
        case ast.Name() | ast.Attribute():
            return truth_of_name(dotted(test), flags)
    return decided(test)


def truth_of_name(name: tuple[str, ...] | None, flags: Flags) -> bool | None:
    """The truth value of a call, a flag or an attribute by its name: ``is_cuda()``, ``_is_npu``, ``x.is_cuda``."""
    if name is None:
        return None
    if len(name) == 1 and name[0] in flags:
        return flags[name[0]]
    if name[-1] == "TYPE_CHECKING":
        return False
    if name[0] == "torch" and name[-1] in _IS_AVAILABLE and len(name) == 3:
        return False  # torch.cuda.is_available(), torch.xpu.is_available()
    if name == ("torch", "version", "cuda") or name == ("torch", "version", "hip"):
        return False
    if is_false_off_cuda(name[-1]):
        return False
    return True if is_true_off_cuda(name[-1]) else None


def _compared(left: ast.expr, op: ast.cmpop, right: ast.expr) -> bool | None:
    words = _device_words(right) or _device_words(left)
    if words:
        return {ast.Eq: False, ast.In: False, ast.Is: False, ast.NotEq: True, ast.NotIn: True}.get(type(op))
    if dotted(left) in (("torch", "version", "cuda"), ("torch", "version", "hip")):
        return {ast.IsNot: False, ast.NotEq: False, ast.Is: True, ast.Eq: True}.get(type(op))
    name = dotted(left.func) if isinstance(left, ast.Call) else None
    if name is not None and (name[-1] == "get_device_sm" or name == ("torch", "cuda", "device_count")):
        return False if isinstance(op, ast.Gt | ast.GtE | ast.Eq) else None
    return None


def _device_words(node: ast.expr) -> bool:
    """True if only device types are named: ``"cuda"``, ``("cuda", "xpu")``, ``torch.device("cuda")``."""
    match node:
        case ast.Constant(value=value):
            return is_device_word(value)
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return bool(parts) and all(_device_words(one) for one in parts)
        case ast.Call(func=func, args=[one]) if (dotted(func) or ("",))[-1] == "device":
            return _device_words(one)
    return False


def _ends(body: list[ast.stmt]) -> bool:
    """True if control never continues past this block: it returns, raises, continues or breaks."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.If):
        return bool(last.orelse) and _ends(last.body) and _ends(last.orelse)
    if isinstance(last, ast.With | ast.AsyncWith):
        return _ends(last.body)
    if isinstance(last, TRY):
        return _ends(last.finalbody)
    return isinstance(last, ast.Return | ast.Raise | ast.Continue | ast.Break)


def never_passes(node: ast.stmt, flags: Flags) -> bool:
    """True if the device never runs past this statement: ``if not is_cuda(): return``, ``assert x.is_cuda``."""
    if isinstance(node, ast.Assert):
        return holds(node.test, flags) is False
    if not isinstance(node, ast.If):
        return False
    answer = holds(node.test, flags)
    if answer is None:
        return False
    taken = node.body if answer else node.orelse
    return _ends(taken) or (len(taken) == 1 and never_passes(taken[0], flags))
