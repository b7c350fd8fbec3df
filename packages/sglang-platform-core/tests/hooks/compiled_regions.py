"""Hooks in what `torch.compile` compiles: targets, hooks, ways to compile, and how a compiled region ended."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple

import torch
from torch._dynamo.utils import counters
from torch.fx.passes.split_module import split_module

from sglang_platform.core.hooks.registry import HookType

__all__ = ["HOOKS", "MODES", "TARGETS", "Compiled", "compiled", "ended", "wanted"]

Region = Callable[[torch.Tensor], torch.Tensor]
CUT = "hooked_regions.cut"

TARGETS = {
    "function": ("function", "of_function"),
    "method": ("Engine.method", "of_method"),
    "classmethod": ("Engine.class_method", "of_class_method"),
    "staticmethod": ("Engine.static_method", "of_static_method"),
    "submodule's `forward`": ("Layer.forward", "of_submodule"),
}
"""By kind: the path of the target in `modules/regions.py`, and the region that calls it."""


@torch.library.custom_op("hooked_regions::cut", mutates_args=())
def cut(x: torch.Tensor) -> torch.Tensor:
    """Where a region is cut into pieces, as SGLang cuts a model at its attention layers."""
    return x.clone()


@cut.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def _tensor_at(args: tuple[Any, ...]) -> int:
    return next(i for i, one in enumerate(args) if isinstance(one, torch.Tensor))


def into_arguments(*args: Any, **kwargs: Any) -> None:
    """BEFORE that hands on the arguments as they are, with other values in them."""
    args[_tensor_at(args)].mul_(10)


def change_arguments(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    place = _tensor_at(args)
    return (*args[:place], args[place] * 10, *args[place + 1 :]), kwargs


def into_result(result: torch.Tensor, *args: Any, **kwargs: Any) -> None:
    """AFTER that keeps the result, with other values in it."""
    result.mul_(10)


def change_result(result: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    return result * 10


def around(original: Region, *args: Any, **kwargs: Any) -> torch.Tensor:
    return original(*args, **kwargs) * 100


def replace(*args: Any, **kwargs: Any) -> torch.Tensor:
    found: torch.Tensor = args[_tensor_at(args)]
    return found - 7


def copied(function: Any) -> Callable[..., Any]:
    """Another function of the same code: the very same one again changes nothing."""
    return FunctionType(function.__code__, function.__globals__, function.__name__)


HOOKS: dict[str, list[tuple[HookType, Callable[..., Any]]]] = {
    "BEFORE": [(HookType.BEFORE, into_arguments)],
    "BEFORE, changes arguments": [(HookType.BEFORE, change_arguments)],
    "AFTER": [(HookType.AFTER, into_result)],
    "AFTER, changes the result": [(HookType.AFTER, change_result)],
    "AROUND": [(HookType.AROUND, around)],
    "REPLACE": [(HookType.REPLACE, replace)],
    "a stack of six": [
        (HookType.REPLACE, replace),
        (HookType.BEFORE, change_arguments),
        (HookType.AFTER, change_result),
        (HookType.AROUND, around),
        (HookType.BEFORE, copied(change_arguments)),
        (HookType.AFTER, into_result),
    ],
}


def _pieces(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    """The graph in pieces, cut at `cut`; each piece is run by itself."""
    piece, parts = 0, {}
    for node in graph.graph.nodes:
        if node.op not in ("placeholder", "output"):
            cuts = CUT in str(node.target)
            piece += cuts
            parts[node] = piece
            piece += cuts
    split = split_module(graph, graph, lambda node: parts[node], keep_original_order=True)
    assert sum(1 for _ in split.children()) > 1, "the region was not cut"
    return split.forward  # type: ignore[no-any-return]


MODES: dict[str, dict[str, Any]] = {
    "compiled": {"backend": "eager"},
    "fullgraph": {"backend": "eager", "fullgraph": True},
    "in pieces": {"backend": _pieces, "fullgraph": True},
}
"""Arguments of `torch.compile`. The hooks are traced alike whatever compiles the graph that comes of it."""


class Compiled(NamedTuple):
    """How the call of a compiled region ended. `error` is the name of what it raised."""

    right: bool
    breaks: int
    error: str = ""


def compiled(region: Region, mode: str) -> Region:
    """`region` compiled, with nothing left of what was compiled before."""
    torch._dynamo.reset()
    made: Region = torch.compile(region, **MODES[mode])
    return made


def ended(call: Region, expected: torch.Tensor) -> Compiled:
    """Call a compiled region."""
    counters.clear()
    try:
        result = call(torch.ones(2))
    except Exception as error:  # noqa: BLE001 - that the tracer fails is an answer
        return Compiled(False, 0, type(error).__name__)
    return Compiled(torch.equal(result, expected), sum(counters["graph_break"].values()))


def wanted(kind: str, hooks: str) -> torch.Tensor:
    """What the region gives eagerly with the hooks in force, worked out without any framework."""
    x, plan = torch.ones(2) * 2, HOOKS[hooks]
    add = {"function": 1.0, "method": 7.0, "classmethod": 3.0, "staticmethod": 4.0}
    for _ in range(2 if kind.startswith("submodule") else 1):
        for type_, _ in plan:
            if type_ is HookType.BEFORE:
                x = x * 10
        x = x - 7 if any(hook is replace for _, hook in plan) else x + add.get(kind, 5.0)
        for type_, _ in plan:
            x = x * {HookType.AFTER: 10, HookType.AROUND: 100}.get(type_, 1)
    return x * 3
