"""Attention over the paged KV cache: schemas; core has the plain torch implementations, for any device.

A vendor keeps this: the schema is what the parts call, the function what a kernel is checked against.
"""

from __future__ import annotations

from sglang_platform.core.portable.torch.paged_attention import (
    paged_decode,
    paged_extend,
)

__all__ = ["SCHEMAS", "paged_decode", "paged_extend"]

SCHEMAS = {
    "paged_decode": (
        "(Tensor q, Tensor k_buffer, Tensor v_buffer, Tensor req_to_token, Tensor req_pool_indices, Tensor seq_lens, "
        "Tensor(a!) out, float scaling, float logit_cap=0.0, int window=-1, Tensor? sinks=None, "
        "Tensor? slot_map=None) -> ()"
    ),
    "paged_extend": (
        "(Tensor q, Tensor k_buffer, Tensor v_buffer, Tensor req_to_token, Tensor req_pool_indices, Tensor seq_lens, "
        "Tensor extend_prefix_lens, Tensor extend_seq_lens, Tensor(a!) out, float scaling, float logit_cap=0.0, "
        "int window=-1, bool causal=True, Tensor? sinks=None, Tensor? slot_map=None) -> ()"
    ),
}
