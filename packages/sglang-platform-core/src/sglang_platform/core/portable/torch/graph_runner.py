"""The decode graph runner for devices whose torch module has graphs as `torch.cuda` has them.

The module offers `CUDAGraph`, `graph`, `graph_pool_handle`, `Stream` and `stream`, whatever its device is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch

from sglang_platform.core.counters import counter
from sglang_platform.core.errors import PlatformError
from sglang_platform.core.graph.runner import Graph, GraphRunner

__all__ = ["TorchGraphRunner"]

_captures = counter("torch.graph.captures")
_replays = counter("torch.graph.replays")


class TorchGraphRunner(GraphRunner):
    """Adds capture with torch's graphs to core's buckets, padding and static inputs.

    All graphs share one memory pool: the largest is captured first, and since two of them never run at once, the
    smaller ones reuse its memory. Warm-up and capture run on a stream of their own, so that libraries set up their
    workspaces where the graph will use them.
    """

    _device_type: ClassVar[str | None] = None
    """The device type whose torch module captures; None: that of the runner's device."""

    _pool: Any = None
    _stream: Any = None

    @property
    def _graphs(self) -> Any:
        return torch.get_device_module(self._device_type or torch.device(self.device).type)

    def record(self, run: Callable[[], Any]) -> tuple[Graph, Any]:
        if self._pool is None:
            self._pool = self._graphs.graph_pool_handle()
        graph = self._graphs.CUDAGraph()
        try:
            with self._graphs.graph(graph, pool=self._pool, stream=self._stream):
                output = run()
        except RuntimeError as error:
            raise PlatformError(
                f"{type(self).__name__}: a decode step could not be captured",
                why=str(error).split("\n", 1)[0],
                fix="serve without graphs (--disable-cuda-graph), or capture fewer or smaller batch sizes",
            ) from error
        _captures.add()
        return graph, output

    def capture(self) -> None:
        """Capture every bucket, largest first; again in the same memory pool.

        A graph reads weights at the addresses they had at capture: an update in place needs no new capture.
        """
        if self._stream is None:
            self._stream = self._graphs.Stream()
        # The graphs of an earlier capture give their memory back before the new ones ask for it.
        self.captured.clear()
        self._graphs.synchronize()
        with self._graphs.stream(self._stream):
            super().capture()
        self._graphs.current_stream().wait_stream(self._stream)

    def execute(self, forward_batch: Any, pp_proxy_tensors: Any = None) -> Any:
        _replays.add()
        return super().execute(forward_batch, pp_proxy_tensors)
