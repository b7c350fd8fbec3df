"""Python loops over tensors in the code of a step, found in its source.

A loop over a tensor makes an object and a call of an operator for each element: milliseconds of host time where the
device computes for microseconds. A name is taken for a tensor (or a numpy array) if its annotation says so, if it is a
field of a batch, or if it is assigned from such an expression or from a call of torch.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator

from sglang_platform.core.attention.batch import ForwardBatch

__all__ = ["loops_over_tensors"]

_ITERATING = frozenset(
    ("all", "any", "dict", "enumerate", "filter", "frozenset", "iter", "list", "map", "max", "min", "reversed", "set",
     "sorted", "sum", "tuple", "zip")
)  # fmt: skip
_ARRAYS = ("torch.Tensor", "IntArray", "Ids", "np.ndarray", "npt.NDArray[np.int64]")
_FIELDS = frozenset(
    field.name
    for field in dataclasses.fields(ForwardBatch)
    if "Tensor" in str(field.type) or field.name.endswith("_cpu")
)
"""The fields of a batch that are tensors, or that some host gives as tensors."""
# What a tensor's methods and attributes return that is no tensor.
_PLAIN = frozenset(
    ("data_ptr", "device", "dim", "dtype", "element_size", "is_contiguous", "is_floating_point", "item", "itemsize",
     "nbytes", "ndim", "numel", "requires_grad", "shape", "size", "storage_offset", "stride", "tolist")
)  # fmt: skip
_NO_TENSORS = frozenset(("device", "dtype", "get_device_module", "finfo", "iinfo", "no_grad", "Size"))


def loops_over_tensors(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each loop over a tensor, of each built-in function that iterates over one, and of each element
    that is read one by one (`item`, `tolist`)."""
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for function in functions:
        yield from _in_function(function)


def _in_function(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[int, str]]:
    arguments = function.args
    names = {
        one.arg
        for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        if _is_array_type(one.annotation)
    }
    nodes = list(_own_nodes(function))
    for _ in range(2):  # an assignment may stand above the one that it depends on, in a loop
        for node in nodes:
            if isinstance(node, ast.AnnAssign) and _is_array_type(node.annotation):
                names |= _targets(node.target)
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    names |= _assigned(target, node.value, names)
    for node in nodes:
        if _reads_one_by_one(node) or any(_is_tensor(one, names) for one in _iterated(node)):
            yield (
                node.lineno if hasattr(node, "lineno") else function.lineno,
                ast.unparse(node).split("\n")[0],
            )


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """All nodes of a function but those of the functions in it."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield child
            yield from _own_nodes(child)


def _iterated(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.For | ast.comprehension):
        return [node.iter]
    if isinstance(node, ast.Starred):
        return [node.value]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _ITERATING:
        # One argument is iterated over; of several, `max` and `min` compare them.
        return node.args if len(node.args) == 1 or node.func.id not in ("max", "min") else []
    return []


def _reads_one_by_one(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("item", "tolist")
    )


def _is_array_type(annotation: ast.expr | None) -> bool:
    if annotation is None:
        return False
    return any(part.strip() in _ARRAYS for part in ast.unparse(annotation).split("|"))


def _targets(target: ast.expr) -> set[str]:
    return {target.id} if isinstance(target, ast.Name) else set()


def _assigned(target: ast.expr, value: ast.expr, names: set[str]) -> set[str]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        pairs = zip(target.elts, value.elts, strict=True)
        return {name for one, of in pairs for name in _assigned(one, of, names)}
    return _targets(target) if _is_tensor(value, names) else set()


def _is_tensor(value: ast.expr, names: set[str]) -> bool:
    if isinstance(value, ast.Name):
        return value.id in names
    if isinstance(value, ast.IfExp):
        return _is_tensor(value.body, names) or _is_tensor(value.orelse, names)
    if isinstance(value, ast.BinOp):
        return _is_tensor(value.left, names) or _is_tensor(value.right, names)
    if isinstance(value, ast.Compare):
        return _is_tensor(value.left, names)
    if isinstance(value, ast.Subscript):
        return _is_tensor(value.value, names)
    if isinstance(value, ast.Attribute):
        return value.attr in _FIELDS or (value.attr not in _PLAIN and _is_tensor(value.value, names))
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        called = value.func
        if isinstance(called.value, ast.Name) and called.value.id in ("torch", "np"):
            return called.attr not in _NO_TENSORS
        return called.attr not in _PLAIN and _is_tensor(called.value, names)
    return False
