"""Graphs of whole forwards for the graph runners that a host builds itself, such as those of a draft model.

A device writes `record`. The interface is that of SGLang 0.5.23's `BaseCudaGraphBackend`; the host decides what is
captured, and into which static buffers the inputs go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sglang_platform.core.contract.parts import Part
from sglang_platform.core.graph.runner import Graph

__all__ = ["FullGraphBackend"]


class FullGraphBackend(Part):
    """One graph for each shape that the host's runner captures. The host builds one for each of its runners."""

    def __init__(
        self, cuda_graph_runner: Any, *, enable_memory_saver: bool = False, reuse_output_buffer: bool = False
    ) -> None:
        self.runner = cuda_graph_runner
        self.captured: dict[Any, tuple[Graph, Any]] = {}

    def record(self, run: Callable[[], Any]) -> tuple[Graph, Any]:
        """Call `run()` once under capture; return the graph and the output `run` returned, tensors in any nesting.

        The output's tensors must be the ones that each `replay()` writes. Written by the device.
        """
        raise NotImplementedError(
            f"{type(self).__name__}.record() must be implemented: capture run() and return a graph"
        )

    @contextmanager
    def capture_session(self, stream: Any) -> Iterator[None]:
        """Around all captures of a runner. `stream` is the host's; a device that captures on its own ignores it."""
        yield

    def capture_one(
        self,
        shape_key: Any,
        forward_fn: Callable[[], Any],
        capture_inputs: Any = None,
        post_warmup_hook: Callable[[], None] | None = None,
    ) -> None:
        """Capture `forward_fn` under a key. It runs once before, since lazy initialisation must not be recorded."""
        forward_fn()
        if post_warmup_hook is not None:
            post_warmup_hook()
        self.captured[shape_key] = self.record(forward_fn)

    def can_run(self, forward_batch: Any, shape_key: Any) -> bool:
        """Whether a graph of this key was captured."""
        return shape_key in self.captured

    @contextmanager
    def replay_session(self) -> Iterator[None]:
        """Around the replays of a step."""
        yield

    def replay(self, shape_key: Any, static_forward_batch: Any, **kwargs: Any) -> Any:
        """Replay a graph on the current inputs; returns the output of the capture."""
        graph, output = self.captured[shape_key]
        graph.replay()
        return output

    def cleanup(self) -> None:
        """Forget every graph."""
        self.captured.clear()
