"""A graph runner that captures a bucket when a batch first needs it, and leaves to the model what its buckets would
mostly fill with padding; a replay goes through a list of steps.

Permitted by: GraphRunner ("asks `can_run_graph(batch)` for each decode step, and calls `execute(batch)` when that says
yes"; `record`: "Call `run()` once under capture; return the graph and the output `run` returned"; `Graph.replay()`
"recomputes the captured outputs in place from the static inputs"). When a bucket is captured is nowhere said of a
device: "Captures one graph per batch-size bucket and replays it".

level: graphs
"""

from __future__ import annotations

import bisect
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from sglang_platform.conformance.reference.graph_runner import ReferenceGraphRunner, _tensors
from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core.graph.runner import CapturedBatch

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Steps:
    """What was recorded: run, and put the results where they were."""

    run: Callable[[], Any]
    places: list[torch.Tensor]
    _results: list[torch.Tensor] = field(default_factory=list, init=False)

    def replay(self) -> None:
        with torch.no_grad():
            for step in (self._compute, self._put):
                step()

    def _compute(self) -> None:
        self._results = _tensors(self.run())

    def _put(self) -> None:
        for place, result in zip(self.places, self._results, strict=True):
            place.copy_(result)
        self._results = []


class _LazyRunner(ReferenceGraphRunner):
    """`captured` grows with the batches that come."""

    def capture(self) -> None:
        """Forget everything: each bucket is captured anew when it is needed next."""
        self.inputs.clear()
        self.captured.clear()

    def record(self, run: Callable[[], Any]) -> tuple[_Steps, Any]:
        with torch.no_grad():
            output = run()
        return _Steps(run, _tensors(output)), output

    def _bucket_of(self, forward_batch: Any) -> int:
        return self.capture_bs[bisect.bisect_left(self.capture_bs, self._most_rows(forward_batch))]

    def can_run_graph(self, forward_batch: Any) -> bool:
        if not super().can_run_graph(forward_batch):
            return False
        rows, bucket = self._most_rows(forward_batch), self._bucket_of(forward_batch)
        if bucket > 4 * rows:
            _log.debug("%d rows run without a graph: %d would be padding", rows, bucket - rows)
            return False
        return True

    def execute(self, forward_batch: Any, pp_proxy_tensors: Any = None) -> Any:
        bucket = self._bucket_of(forward_batch)
        if bucket not in self.captured:
            self._first_use(bucket)
        return super().execute(forward_batch, pp_proxy_tensors)

    def _first_use(self, bucket: int) -> None:
        self.inputs.clear()  # what is run meanwhile writes to the padding page
        batch = self._static_batch(bucket)
        self._prepare(batch, in_capture=True)
        self._run_model(batch)
        graph, output = self.record(partial(self._run_model, batch))
        self.captured[bucket] = CapturedBatch(graph, batch, output)


class Platform(ReferencePlatform):
    """Nothing else differs."""

    def get_graph_runner_cls(self) -> type | None:
        return _LazyRunner
