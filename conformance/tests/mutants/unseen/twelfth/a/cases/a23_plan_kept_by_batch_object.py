"""The backend plans a step (the lengths that decode reads) in init_forward_metadata_out_graph(), and plans again only for
another batch object. Eager steps bring a new object each. A graph's static batch is one object for all replays of its
bucket, so that from the second replay in a row of one bucket on, decode reads as many tokens as in the first: the newest
tokens of an answer are not attended to.
follows: vllm-project/vllm#44868, InfiniTensor/InfiniLM#540 (stale metadata in replays)
level: graphs
"""

from __future__ import annotations

from sglang_platform.conformance.reference.attention import ReferenceAttention
from sglang_platform.conformance.reference.platform import NAME, ReferencePlatform


class Attention(ReferenceAttention):
    def __init__(self, model_runner):
        super().__init__(model_runner)
        self._planned = self._lengths = None

    def init_forward_metadata_out_graph(self, forward_batch, in_capture=False):
        if in_capture:
            self._planned = None
        elif self._planned is not forward_batch:
            self._planned = forward_batch
            self._lengths = forward_batch.seq_lens.tolist()

    def forward_decode(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):
        if self._planned is not forward_batch:
            return super().forward_decode(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)
        news = [1] * len(self._lengths)
        return self._forward(
            q, k, v, layer, forward_batch, save_kv_cache, self._lengths, news, kwargs.get("sinks")
        )


class Platform(ReferencePlatform):
    def get_attention_backends(self):
        return {NAME: Attention}
