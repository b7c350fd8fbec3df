"""The KV pool: K and V of all layers, one row per token slot.

A vendor changes: the layout in `_create_buffers` and the kernels that store and move.
"""

from __future__ import annotations

import torch

from sglang_platform.core import MHATokenToKVPool, counter
from sglang_platform.example_oot.kernels import store_kv

_stores = counter("example_oot.kv_pool.stores")
_moves = counter("example_oot.kv_pool.moves")


class ExampleOOTMHAPool(MHATokenToKVPool):
    """Multi-head attention pool: per layer K [slots, heads, head_dim] and V [slots, heads, v_head_dim]."""

    supported_dtypes = (torch.float32, torch.bfloat16, torch.float16)

    def _create_buffers(self) -> None:
        slots = self.size + self.page_size  # slot 0's page is reserved for padding
        self.k_buffer = [self._zeros(slots, self.head_dim) for _ in range(self.layer_num)]
        self.v_buffer = [self._zeros(slots, self.v_head_dim) for _ in range(self.layer_num)]

    def _zeros(self, slots: int, head_dim: int) -> torch.Tensor:
        return torch.zeros((slots, self.head_num, head_dim), dtype=self.store_dtype, device=self.device)

    def _store_kv_layer(
        self, layer_idx: int, loc: torch.Tensor, cache_k: torch.Tensor, cache_v: torch.Tensor
    ) -> None:
        if cache_k.stride(-1) != 1 or cache_v.stride(-1) != 1:  # the kernel copies rows of contiguous heads
            cache_k, cache_v = cache_k.contiguous(), cache_v.contiguous()
        store_kv(cache_k, cache_v, self.k_buffer[layer_idx], self.v_buffer[layer_idx], loc)
        _stores.add()

    def _move_kv_cache_impl(self, tgt_loc: torch.Tensor, src_loc: torch.Tensor) -> None:
        for buffer in (*self.k_buffer, *self.v_buffer):
            buffer[tgt_loc] = buffer[src_loc]  # the gather is a copy, so overlapping moves are right
        _moves.add()
