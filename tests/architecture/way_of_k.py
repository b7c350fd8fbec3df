"""The way of `k`, from the attention backend to the pool's buffer, followed through the sources.

Each way names the classes and functions on it; where they stand, and that `k` is handed from each to the next, is read
from the code. `python tests/architecture/way_of_k.py` writes the lists into `docs/architecture.md`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from import_graph import OURS, ROOT, our_graph

__all__ = ["PAGE", "WAYS", "Step", "follow", "written"]

PAGE = ROOT / "docs" / "architecture.md"

WAYS = {
    "On the example": (
        "ExampleOOTAttentionBackend.forward",
        "ExampleOOTAttentionBackend.forward_decode",
        "ExampleOOTAttentionBackend._store",
        "ExampleOOTMHAPool.set_kv_buffer",
        "ExampleOOTMHAPool._store_kv_layer",
        "sglang_platform.example_oot.kv_pools._store",
        "sglang_platform.example_oot.kernels.kv_store.store_kv",
    ),
    "On CUDA": (
        "CudaAttentionBackend.forward",
        "CudaAttentionBackend.forward_decode",
        "CudaAttentionBackend._store",
        "TritonMHAPool.set_kv_buffer",
        "TritonMHAPool._store",
        "sglang_platform.core.portable.triton.kernels.kv_store.store_pair",
        "sglang_platform.core.portable.triton.kernels.kv_store.store_pair_kernel",
    ),
}
"""Each step is `Class.method`, on the class that serves, or `module.function`."""


@dataclass(frozen=True)
class Step:
    """A function on the way: its file, its name there, and what `k` is called in it."""

    path: Path
    name: str
    carries: str

    def __str__(self) -> str:
        return f"`{_short(self.path)}:{self.name}`, as `{self.carries}`"


def _short(path: Path) -> str:
    """From the import name of its distribution: `core/memory/mha.py`."""
    return "/".join(path.parts[len(path.parts) - path.parts[::-1].index(OURS) :])


class Lost(Exception):
    """A step is not there, or does not hand `k` on to the next."""


@dataclass(frozen=True)
class _Function:
    path: Path
    owner: str
    node: ast.FunctionDef

    @property
    def name(self) -> str:
        return f"{self.owner}.{self.node.name}" if self.owner else self.node.name

    @cached_property
    def parameters(self) -> list[str]:
        names = [argument.arg for argument in (*self.node.args.posonlyargs, *self.node.args.args)]
        return names[1:] if self.owner else names


class _Sources:
    """The classes and functions of our modules."""

    def __init__(self, modules: Mapping[str, Path]) -> None:
        self.functions: dict[str, _Function] = {}
        self.bases: dict[str, list[str]] = {}
        for module, path in modules.items():
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.FunctionDef):
                    self.functions[f"{module}.{node.name}"] = _Function(path, "", node)
                elif isinstance(node, ast.ClassDef):
                    self.bases[node.name] = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
                    for inner in node.body:
                        if isinstance(inner, ast.FunctionDef):
                            function = _Function(path, node.name, inner)
                            self.functions[f"{node.name}.{inner.name}"] = function

    def find(self, step: str) -> _Function:
        """The function that serves `Class.method`: the class's own or that of its nearest base."""
        if step in self.functions:
            return self.functions[step]
        owner, _, method = step.rpartition(".")
        for base in self._lineage(owner):
            if f"{base}.{method}" in self.functions:
                return self.functions[f"{base}.{method}"]
        raise Lost(f"{step}: no such function in our sources")

    def _lineage(self, owner: str) -> Iterator[str]:
        """Depth first, which is Python's order where no two bases share a base below the one sought."""
        for base in self.bases.get(owner, ()):
            yield base
            yield from self._lineage(base)


def follow(
    way: tuple[str, ...], modules: Mapping[str, Path] | None = None, parameter: str = "k"
) -> list[Step]:
    """The steps of a way. Raises Lost where `parameter` is not handed from one to the next."""
    sources = _Sources(our_graph().modules if modules is None else modules)
    functions = [sources.find(step) for step in way]
    steps = []
    for here, there in zip(functions, [*functions[1:], None], strict=True):
        steps.append(Step(here.path, here.name, parameter))
        if there is not None:
            parameter = _handed_on(here, there, parameter)
    return steps


def _handed_on(here: _Function, there: _Function, parameter: str) -> str:
    """The parameter of `there` that takes what `here` has in `parameter`, or what it made of it."""
    carried = _made_of(here.node, parameter)
    for call in _calls(here.node, there.node.name):
        for position, argument in enumerate(call.args):
            if carried & _names(argument) and position < len(there.parameters):
                return there.parameters[position]
        for keyword in call.keywords:
            if keyword.arg and carried & _names(keyword.value):
                return keyword.arg
    raise Lost(f"{here.name} does not hand {parameter} on to {there.node.name}")


def _made_of(function: ast.FunctionDef, parameter: str) -> set[str]:
    """The names in a function that hold its parameter, or something computed from it."""
    carried = {parameter}
    while True:
        before = len(carried)
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and carried & _names(node.value):
                carried |= {name for target in node.targets for name in _targets(target, node.value, carried)}
        if len(carried) == before:
            return carried


def _targets(target: ast.expr, value: ast.expr, carried: set[str]) -> set[str]:
    """The names that an assignment binds to it; of `a, b = f(a), g(b)` each its own."""
    if isinstance(target, ast.Tuple):
        values = value.elts if isinstance(value, ast.Tuple) else [value] * len(target.elts)
        pairs = zip(target.elts, values, strict=False)
        return {name for one, its in pairs if carried & _names(its) for name in _targets(one, its, carried)}
    return {target.id} if isinstance(target, ast.Name) else set()


def _calls(function: ast.FunctionDef, name: str) -> Iterator[ast.Call]:
    """Calls of `name`, also as a method, as a kernel launch `name[grid](...)`, or by a local name for it."""
    also = {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and any(_last(part) == name for part in ast.walk(node.value))
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and not ast.unparse(node.func).startswith("super()"):
            called = node.func.value if isinstance(node.func, ast.Subscript) else node.func
            if _last(called) == name or _last(called) in also:
                yield node


def _last(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _names(node: ast.expr) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def written(text: str) -> str:
    """The page with each way between its marks."""
    for title, way in WAYS.items():
        begin, end = f"<!-- the way of k: {title} -->\n", "<!-- end -->"
        before, _, rest = text.partition(begin)
        after = rest.partition(end)[2]
        lines = "\n".join(f"{number}. {step}" for number, step in enumerate(follow(way), 1))
        text = f"{before}{begin}\n{title}:\n\n{lines}\n\n{end}{after}"
    return text


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
