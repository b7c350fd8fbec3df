"""Healthy: a small device that declares little, in other containers than tuples, and refuses the rest in words: MHA pools
of two types, one page size, no windows, caps, sinks, encoders or 8-bit caches, no graphs.
level: contract
"""

from __future__ import annotations

import torch

from sglang_platform.conformance.reference.attention import ReferenceAttention
from sglang_platform.conformance.reference.platform import NAME, ReferencePlatform
from sglang_platform.conformance.reference.pools import ReferenceMHAPool
from sglang_platform.core import PlatformCapabilities
from sglang_platform.core.attention.speculative import tree_mask
from sglang_platform.core.contract.types import kv_pool_kind
from sglang_platform.core.errors import PlatformError


class Pool(ReferenceMHAPool):
    supported_dtypes = (torch.float32, torch.bfloat16)


class Attention(ReferenceAttention):
    def _forward(self, q, k, v, layer, batch, save_kv_cache, lengths, news, sinks):
        window = layer.sliding_window_size
        asked = [
            word
            for word, is_asked in (
                ("sliding_window", window is not None and window >= 0),
                ("logit_cap", bool(layer.logit_cap)),
                ("sinks", sinks is not None),
                ("encoder", getattr(layer.attn_type, "value", "decoder") != "decoder"),
                ("fp8_kv", layer.k_scale is not None or layer.v_scale is not None),
                ("mla", self._latent_rows() is not None),
            )
            if is_asked
        ]
        if asked:
            raise PlatformError(
                f"the small device does not compute {', '.join(asked)}",
                why="its kernels have causal attention without more",
                fix="serve a model without, or choose another --attention-backend",
            )
        return super()._forward(q, k, v, layer, batch, save_kv_cache, lengths, news, sinks)

    def forward_verify(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):
        if tree_mask(forward_batch) is not None:
            raise PlatformError(
                "the small device does not verify trees of drafts",
                why="its kernels have no mask",
                fix="draft chains: --speculative-eagle-topk 1",
            )
        return super().forward_verify(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)


class Platform(ReferencePlatform):
    capabilities = PlatformCapabilities()
    supported_kv_dtypes = frozenset({"float32", "bfloat16"})
    supported_page_sizes = [16]
    supported_kv_kinds = {"mha"}
    attention_features = frozenset({"mha", "gqa", "mqa", "chunked_prefill", "mixed_batch"})

    def get_attention_backends(self):
        return {NAME: Attention}

    def get_kv_pool_cls(self, *, kind):
        if kv_pool_kind(kind) != "mha":
            raise NotImplementedError(f"no {kind} pools on the small device: it keeps keys and values per head")
        return Pool

    def get_graph_runner_cls(self):
        return None

    def get_full_graph_backend_cls(self):
        return None
