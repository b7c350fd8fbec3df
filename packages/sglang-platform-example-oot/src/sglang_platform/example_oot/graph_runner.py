"""Graphs: a decode step captured once per batch size.

A vendor changes: `record`, to capture with the device's own graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from sglang_platform.core import GraphRunner, counter
from sglang_platform.core.graph.full import FullGraphBackend
from sglang_platform.core.graph.runner import Graph

from sglang_platform.example_oot.device_graph import new_graph
from sglang_platform.example_oot.graph import GraphCaptureError

_captures = counter("example_oot.graph.captures")
_replays = counter("example_oot.graph.replays")


class ExampleOOTGraphRunner(GraphRunner):
    """Buckets, padding and static inputs are core's; the graph is the device's.

    Each capture is verified before it is used: with inputs other than those of the capture, a replay must be
    bit-identical to the model. A model that cannot be captured stops the launch here, with the reason.
    """

    def record(self, run: Callable[[], Any]) -> tuple[Graph, Any]:
        # All sizes share the memory of the first and largest: one is replayed at a time.
        largest = next(iter(self.captured.values()), None)
        graph = new_graph(self.device, memory_of=largest.graph if largest is not None else None)
        output = graph.capture(run)
        _captures.add()
        return graph, output

    def capture(self) -> None:
        try:
            super().capture()
        except GraphCaptureError as error:
            raise GraphCaptureError(
                f"{error}. Serve this model without graphs: --disable-cuda-graph"
            ) from error
        for bucket in self.capture_bs:
            self._prove(bucket)
        self.inputs.clear()
        self.clear_states()

    def execute(self, forward_batch: Any, pp_proxy_tensors: Any = None) -> Any:
        _replays.add()
        return super().execute(forward_batch, pp_proxy_tensors)

    def _prove(self, bucket: int) -> None:
        captured = self.captured[bucket]
        self.inputs.clear()
        # One token for all rows: padded rows share slot 0, so their keys must agree. It differs from the capture's 0.
        self.inputs.input_ids.fill_(self._vocabulary() // 2 + 1)
        self.inputs.positions.fill_(3)
        self._prepare(captured.forward_batch, in_capture=True)
        # The model may work in place on what an earlier pipeline stage hands over, so it is filled for each run.
        self.clear_states()
        self.stage.fill(-1.0, 1.0)
        expected = [tensor.clone() for tensor in _tensors_of(self._run_model(captured.forward_batch))]
        self.clear_states()
        self.stage.fill(-1.0, 1.0)
        captured.graph.replay()
        if not all(map(torch.equal, _tensors_of(captured.output), expected)):
            raise GraphCaptureError(
                f"the graph of batch size {bucket} does not reproduce the model on other inputs"
            )

    def _vocabulary(self) -> int:
        return int(self.model_runner.model_config.vocab_size)


def _tensors_of(output: Any) -> list[torch.Tensor]:
    """The logits; for a pipeline stage that is not the last, the tensors passed to the next stage."""
    if isinstance(output, torch.Tensor):
        return [output]
    handed_on = getattr(output, "tensors", None)
    return [output.next_token_logits] if handed_on is None else list(handed_on.values())


class ExampleOOTFullGraphBackend(FullGraphBackend):
    """Graphs of a draft model. Their outputs are read while others replay, so each keeps its own memory."""

    def record(self, run: Callable[[], Any]) -> tuple[Graph, Any]:
        graph = new_graph(self.runner.model_runner.device)
        output = graph.capture(run)
        _captures.add()
        return graph, output
