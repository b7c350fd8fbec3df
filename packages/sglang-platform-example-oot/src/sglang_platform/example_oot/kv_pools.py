"""The KV pools: per token slot, K and V of all layers (MHA), or one latent row for all heads (MLA, DSA).

A vendor changes: the layout in `_create_buffers` and the kernels that store and move.
"""

from __future__ import annotations

import torch
from sglang_platform.core import (
    DSATokenToKVPool,
    MHATokenToKVPool,
    MLATokenToKVPool,
    counter,
)

from sglang_platform.example_oot import kernels

_stores = counter("example_oot.kv_pool.stores")
_moves = counter("example_oot.kv_pool.moves")

_DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn)


class ExampleOOTMHAPool(MHATokenToKVPool):
    """Multi-head attention pool: per layer K [slots, heads, head_dim] and V [slots, heads, v_head_dim]."""

    supported_dtypes = _DTYPES

    def _create_buffers(self) -> None:
        slots = self.size + self.page_size  # slot 0's page is reserved for padding
        self.k_buffer = [self._zeros(slots, self.head_dim) for _ in range(self.layer_num)]
        self.v_buffer = [self._zeros(slots, self.v_head_dim) for _ in range(self.layer_num)]

    def _zeros(self, slots: int, head_dim: int) -> torch.Tensor:
        return torch.zeros((slots, self.head_num, head_dim), dtype=self.store_dtype, device=self.device)

    def _store_kv_layer(
        self, layer_idx: int, loc: torch.Tensor, cache_k: torch.Tensor, cache_v: torch.Tensor
    ) -> None:
        _store(cache_k, cache_v, self.k_buffer[layer_idx], self.v_buffer[layer_idx], loc)

    def _move_kv_cache_impl(self, tgt_loc: torch.Tensor, src_loc: torch.Tensor) -> None:
        for buffer in (*self.k_buffer, *self.v_buffer):
            buffer[tgt_loc] = buffer[src_loc]  # the gather is a copy, so overlapping moves are right
        _moves.add()


class ExampleOOTMLAPool(MLATokenToKVPool):
    """Multi-head latent attention pool: per layer the latent and the rotated key part, [slots, 1, rank + rotated]."""

    supported_dtypes = _DTYPES

    def _scatter_mla_rows(
        self,
        dst_buffer: torch.Tensor,
        loc: torch.Tensor,
        cache_k_nope: torch.Tensor,
        cache_k_rope: torch.Tensor,
    ) -> None:
        width = cache_k_nope.shape[-1]
        _store(cache_k_nope, cache_k_rope, dst_buffer[..., :width], dst_buffer[..., width:], loc)

    def _move_kv_cache_impl(self, tgt_loc: torch.Tensor, src_loc: torch.Tensor) -> None:
        super()._move_kv_cache_impl(tgt_loc, src_loc)
        _moves.add()


class ExampleOOTDSAPool(DSATokenToKVPool):
    """DeepSeek sparse attention pool: latent rows, packed in fp8 or plain, and the indexer's keys; core's own."""

    supported_dtypes = _DTYPES


def _store(
    k: torch.Tensor, v: torch.Tensor, k_buffer: torch.Tensor, v_buffer: torch.Tensor, loc: torch.Tensor
) -> None:
    # The kernel copies rows of contiguous heads.
    k = k if k.stride(-1) == 1 else k.contiguous()
    v = v if v.stride(-1) == 1 else v.contiguous()
    kernels.store_kv(k, v, k_buffer, v_buffer, loc)
    _stores.add()
