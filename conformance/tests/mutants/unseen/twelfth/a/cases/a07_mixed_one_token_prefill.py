"""A mixed batch is split: requests with one new token are taken for the decodes, and the decodes are taken to stand at
the end. A prefill with one token left (all else of its prompt was cached) in front of another prefill shifts the border: the
prefill behind it is computed as a decode of its last row, and its other rows come out as zeros.
follows: kindred to sgl-project/sglang#34387, vllm-project/vllm-ascend#11948, tenstorrent/vllm-tt-plugin#67 (which rows of a mixed
batch are decodes, and where they stand)
level: kernels
"""

from __future__ import annotations

import copy

from sglang_platform.conformance.reference.attention import ReferenceAttention
from sglang_platform.conformance.reference.platform import NAME, ReferencePlatform


class Attention(ReferenceAttention):
    def forward_extend(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):
        if not forward_batch.forward_mode.is_mixed() or self._is_by_heads(layer):
            return super().forward_extend(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)
        if save_kv_cache and k is not None:
            self._store(k, v, layer, forward_batch.out_cache_loc)
        lengths, news = forward_batch.seq_lens.tolist(), forward_batch.extend_seq_lens.tolist()
        sinks = kwargs.get("sinks")
        decodes = sum(new == 1 for new in news)
        prefills = len(news) - decodes
        out = q.new_zeros(q.shape[0], layer.tp_q_head_num * layer.v_head_dim)
        for part, counts, rows in (
            (slice(0, prefills), news[:prefills], slice(0, sum(news[:prefills]))),
            (slice(prefills, None), [1] * decodes, slice(len(q) - decodes, None)),
        ):
            if not counts:
                continue
            batch = copy.copy(forward_batch)
            batch.req_pool_indices = forward_batch.req_pool_indices[part]
            out[rows] = self._forward(
                q[rows], None, None, layer, batch, False, lengths[part], counts, sinks
            )
        return out


class Platform(ReferencePlatform):
    def get_attention_backends(self):
        return {NAME: Attention}
