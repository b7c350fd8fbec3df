"""The prefill of a latent (MLA) model without a cached prefix, where keys and values come by heads and are not read from
the pool, is computed as one causal sequence over all rows of the batch. A second prompt in the same batch attends to the
first one's tokens; a prompt alone in its batch is right.
follows: no report looked up; the kind is a ragged prefill that loses cu_seqlens
level: kernels
"""

from __future__ import annotations

from sglang_platform.conformance.reference.attention import ReferenceAttention
from sglang_platform.conformance.reference.platform import NAME, ReferencePlatform


class Attention(ReferenceAttention):
    def _own_rows(self, q, k, v, layer, news, sinks):
        return super()._own_rows(q, k, v, layer, [sum(news)], sinks)


class Platform(ReferencePlatform):
    def get_attention_backends(self):
        return {NAME: Attention}
