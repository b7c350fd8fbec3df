"""Before a replay the rows of the live batch are copied into the static inputs, and of the padded rows the request row and
the length are reset, but not out_cache_loc: it still names slots of the larger batch before. The padded rows store the
padding token's key there, over tokens of requests that are still running. Full buckets and a first replay are right.
follows: m0at/rvllm#32; kindred: xLLM-AI/xllm#1939 (metadata of padded rows)
level: graphs
"""

from __future__ import annotations

from sglang_platform.conformance.reference.graph_runner import ReferenceGraphRunner
from sglang_platform.conformance.reference.platform import ReferencePlatform


class Runner(ReferenceGraphRunner):
    def capture(self):
        inputs = self.inputs
        if "load" not in vars(inputs):
            inputs.load = _without_slots(inputs)
        super().capture()


def _without_slots(inputs):
    whole = inputs.load

    def load(forward_batch, bucket):
        """One copy for the slots, of the live rows only."""
        live = forward_batch.batch_size * inputs.tokens
        behind = inputs.out_cache_loc[live:].clone()
        whole(forward_batch, bucket)
        inputs.out_cache_loc[live:].copy_(behind)

    return load


class Platform(ReferencePlatform):
    def get_graph_runner_cls(self):
        return Runner
