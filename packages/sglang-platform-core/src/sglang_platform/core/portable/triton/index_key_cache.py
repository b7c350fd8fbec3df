"""The DSA indexer's keys, stored and moved by kernels."""

from __future__ import annotations

import torch

from sglang_platform.core.memory.index_keys import IndexKeyCache
from sglang_platform.core.portable.triton.buffer_table import BufferTable, Rows
from sglang_platform.core.portable.triton.index_key_store import store_index_keys
from sglang_platform.core.portable.triton.kv_move import MOST_ROWS, move
from sglang_platform.core.portable.triton.launch import ShapesOf, launches

__all__ = ["TritonIndexKeyCache"]


class TritonIndexKeyCache(IndexKeyCache):
    """Core's cache, over the same buffers; core's torch code serves tensors on the CPU."""

    def __init__(self, made: IndexKeyCache, shapes_of: ShapesOf) -> None:
        """Take over the buffers of `made`."""
        self.__dict__.update(made.__dict__)
        self._shapes_of = shapes_of
        present = [layer for layer, buffer in enumerate(self.buffer) if buffer.shape[0]]
        parts = ([self.keys(layer) for layer in present], [self.scales(layer) for layer in present])
        self._tables = [
            BufferTable([Rows(part, self.page_size) for part in views]) for views in parts if views
        ]

    def store(
        self, layer_index: int, loc: torch.Tensor, index_k: torch.Tensor, index_k_scale: torch.Tensor
    ) -> None:
        if not launches(loc):
            super().store(layer_index, loc, index_k, index_k_scale)
            return
        store_index_keys(
            index_k,
            index_k_scale,
            self.buffer[layer_index],
            loc,
            page_size=self.page_size,
            launch=self._shapes_of(loc.device).scatter,
        )

    def move(self, tgt_loc: torch.Tensor, src_loc: torch.Tensor) -> None:
        if not launches(tgt_loc) or not 0 < tgt_loc.numel() <= MOST_ROWS:
            super().move(tgt_loc, src_loc)
            return
        for table in self._tables:
            move(table, tgt_loc, src_loc, shapes=self._shapes_of(tgt_loc.device))
