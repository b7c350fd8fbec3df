"""Decode graphs for a device without any: a replay runs the model again and writes where the capture wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from sglang_platform.core import GraphRunner
from sglang_platform.core.graph.full import FullGraphBackend

__all__ = ["ReferenceFullGraphBackend", "ReferenceGraphRunner"]


class RunAgain:
    """One captured decode step."""

    def __init__(self, run: Callable[[], Any], output: Any) -> None:
        self.run = run
        self.output = output

    def replay(self) -> None:
        with torch.no_grad():
            for into, now in zip(_tensors(self.output), _tensors(self.run()), strict=True):
                into.copy_(now)


class ReferenceGraphRunner(GraphRunner):
    """Buckets, padding and static inputs are core's."""

    def record(self, run: Callable[[], Any]) -> tuple[RunAgain, Any]:
        with torch.no_grad():
            output = run()
        return RunAgain(run, output), output


def _tensors(output: Any) -> list[torch.Tensor]:
    """Every tensor of an output: of tuples, lists, dicts and the host's own objects, as deep as they go."""
    if isinstance(output, torch.Tensor):
        return [output]
    if isinstance(output, dict):
        output = list(output.values())
    elif hasattr(output, "__dict__"):
        output = list(vars(output).values())
    parts = output if isinstance(output, list | tuple) else ()
    return [tensor for part in parts for tensor in _tensors(part)]


class ReferenceFullGraphBackend(FullGraphBackend):
    """Keys and sessions are core's."""

    def record(self, run: Callable[[], Any]) -> tuple[RunAgain, Any]:
        return _recorded(run)


def _recorded(run: Callable[[], Any]) -> tuple[RunAgain, Any]:
    with torch.no_grad():
        output = run()
    return RunAgain(run, output), output
