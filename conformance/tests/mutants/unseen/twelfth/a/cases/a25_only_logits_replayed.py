"""A replay writes the first tensor of the captured output, the logits, and no other. Where a model also returns hidden
states (a target of EAGLE, an embedding beside the logits, tensors for the next pipeline stage), these stay as they were at
the capture. Models that return one tensor are right.
follows: no report looked up; the kind is an output beside the logits that a capture did not register
level: graphs
"""

from __future__ import annotations

import torch

from sglang_platform.conformance.reference.graph_runner import (
    ReferenceFullGraphBackend,
    ReferenceGraphRunner,
    RunAgain,
    _tensors,
)
from sglang_platform.conformance.reference.platform import ReferencePlatform


class FirstTensor(RunAgain):
    def replay(self):
        with torch.no_grad():
            for into, now in zip(_tensors(self.output)[:1], _tensors(self.run())[:1], strict=True):
                into.copy_(now)


class _Records:
    def record(self, run):
        graph, output = super().record(run)
        return FirstTensor(graph.run, output), output


class Runner(_Records, ReferenceGraphRunner):
    pass


class Backend(_Records, ReferenceFullGraphBackend):
    pass


class Platform(ReferencePlatform):
    def get_graph_runner_cls(self):
        return Runner

    def get_full_graph_backend_cls(self):
        return Backend
