"""A graph of the device: what a function queues, captured once and replayed as one task.

A vendor changes nothing where its device implements `torch.accelerator.Graph`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from sglang_platform.example_oot.graph import GraphCaptureError, TapeGraph

__all__ = ["DeviceGraph", "new_graph"]

_ops = torch.ops.sglang_example_oot


def new_graph(device: Any, memory_of: DeviceGraph | None = None) -> TapeGraph | DeviceGraph:
    """A graph for tensors of `device`; on device type `cpu`, which has none, a recorded list of operators."""
    return TapeGraph() if torch.device(device).type == "cpu" else DeviceGraph(memory_of)


class DeviceGraph:
    """`capture(run)`, then `replay()`. Graphs that share `memory_of` must not run at the same time.

    Uses `torch.accelerator.Graph` (torch 2.13); an older torch has none, and the same graph is reached through the
    device's own operators.
    """

    computes_at_capture = False

    def __init__(self, memory_of: DeviceGraph | None = None) -> None:
        self._graph: Any = None
        self._handle = 0
        if hasattr(torch.accelerator, "Graph"):
            pool = memory_of._graph.pool() if memory_of is not None else None
            self._graph = torch.accelerator.Graph(pool=pool)
        else:
            self._memory_of = memory_of._handle if memory_of is not None else 0

    def capture(self, run: Callable[[], Any]) -> Any:
        """Call `run()` without running what it queues; returns its result, whose tensors each replay writes.

        Raises GraphCaptureError where `run` waits for the device or needs a value of a tensor.
        """
        torch.accelerator.synchronize()
        self._begin()
        try:
            result = run()
        except RuntimeError as error:
            raise GraphCaptureError(f"the model cannot be captured: {error}") from error
        finally:
            self._end()
        return result

    def _begin(self) -> None:
        if self._graph is not None:
            self._graph.capture_begin()
        else:
            self._handle = _ops._graph_begin(self._memory_of)

    def _end(self) -> None:
        if self._graph is not None:
            self._graph.capture_end()
        else:
            _ops._graph_end(self._handle)

    def replay(self) -> None:
        """Queue the graph on the current stream."""
        if self._graph is not None:
            self._graph.replay()
        else:
            _ops._graph_replay(self._handle)

    def __del__(self) -> None:
        if self._handle:
            _ops._graph_drop(self._handle)
