"""The KV pool of multi-head, grouped-query and multi-query attention."""

from __future__ import annotations

from typing import Any

import torch

from sglang_platform.core.memory.arguments import require_at_least
from sglang_platform.core.memory.kv_cache import KVCache
from sglang_platform.core.memory.rows import Scale, cast_rows, store_rows

__all__ = ["MHATokenToKVPool"]


class MHATokenToKVPool(KVCache):
    """Keys [slots, head_num, head_dim] and values [slots, head_num, v_head_dim], one buffer each per layer.

    A device overrides what it does better, here or in a mixin before this class:

    - `_create_buffers()` sets `self.k_buffer` and `self.v_buffer`, lists with one tensor per layer, of
      `store_dtype` on `device`, `size + page_size` rows, zeroed. Nothing else: in the host the adapter
      completes the rest.
    - `_store_kv_layer(layer_idx, loc, cache_k, cache_v)` writes one layer. `layer_idx` counts from 0 in this
      pool; `loc` [n > 0]; `cache_k` [n, head_num, head_dim] and `cache_v` [n, head_num, v_head_dim] are
      already scaled, cast and viewed as `store_dtype`, and may have any strides.
    - `_move_kv_cache_impl(tgt_loc, src_loc)` copies rows of all layers; the two may overlap.
    - `get_kv_size_bytes()`, when `_create_buffers` allocates more than the two lists.
    - `_slot_buffers(layer_index)`, when buffers have another shape, as the device's attention reads them.

    The names are SGLang 0.5.23's hooks.
    """

    kv_cache_layout: str = "nhd"

    k_buffer: list[torch.Tensor]
    v_buffer: list[torch.Tensor]

    def __init__(
        self,
        size: int,
        page_size: int,
        dtype: torch.dtype,
        head_num: int,
        head_dim: int,
        layer_num: int,
        device: str | torch.device,
        enable_memory_saver: bool,
        v_head_dim: int | None = None,
        swa_head_num: int | None = None,
        swa_head_dim: int | None = None,
        swa_v_head_dim: int | None = None,
        start_layer: int | None = None,
        end_layer: int | None = None,
        allocation_label: str | None = None,
        **of_sglang: Any,
    ) -> None:
        """`head_num` is this rank's share. The `swa_*` sizes, when given, replace the plain ones.

        `enable_memory_saver` and `of_sglang`, the other keywords of SGLang's constructor, act in SGLang only. Raises
        PlatformError for sizes under 1 and an unsupported dtype.
        """
        super().__init__(
            size,
            page_size,
            dtype,
            layer_num,
            device,
            enable_memory_saver,
            start_layer,
            end_layer,
            allocation_label,
        )
        self.head_num = head_num if swa_head_num is None else swa_head_num
        self.head_dim = head_dim if swa_head_dim is None else swa_head_dim
        plain_v_head_dim = head_dim if v_head_dim is None else v_head_dim
        self.v_head_dim = plain_v_head_dim if swa_v_head_dim is None else swa_v_head_dim
        require_at_least(self, 1, head_num=self.head_num, head_dim=self.head_dim, v_head_dim=self.v_head_dim)
        self.row_dim = self.head_num * self.head_dim
        self.v_row_dim = self.head_num * self.v_head_dim
        self._create_buffers()
        self._checked_buffers("k_buffer")
        self._checked_buffers("v_buffer")
        self._record_usage()

    # Overridable

    def _create_buffers(self) -> None:
        """Allocate `k_buffer` and `v_buffer`; see the class."""
        rows = self.size + self.page_size
        self.k_buffer = [self._zeros(rows, self.head_num, self.head_dim) for _ in range(self.layer_num)]
        self.v_buffer = [self._zeros(rows, self.head_num, self.v_head_dim) for _ in range(self.layer_num)]

    def _store_kv_layer(
        self, layer_idx: int, loc: torch.Tensor, cache_k: torch.Tensor, cache_v: torch.Tensor
    ) -> None:
        """Write the rows of one layer; see the class."""
        store_rows(self.k_buffer[layer_idx], loc, cache_k)
        store_rows(self.v_buffer[layer_idx], loc, cache_v)

    def get_kv_size_bytes(self) -> tuple[int, int]:
        """Bytes of all key buffers and of all value buffers."""
        return sum(b.nbytes for b in self.k_buffer), sum(b.nbytes for b in self.v_buffer)

    # Writing

    def set_kv_buffer(
        self,
        layer: Any,
        loc: torch.Tensor,
        cache_k: torch.Tensor,
        cache_v: torch.Tensor,
        k_scale: Scale = None,
        v_scale: Scale = None,
        layer_id_override: int | None = None,
    ) -> None:
        """Store the keys and values of n tokens; called by the attention backend, once per layer and step.

        `loc` [n] are slots (padded tokens name slot 0). `cache_k` is [n, head_num, head_dim] or [n, row_dim],
        `cache_v` likewise with v_head_dim; any strides; not changed. Where their dtype is not the pool's they
        are divided by the scale (one number per tensor, None: 1) and cast, saturating for fp8.
        `layer.layer_id` or `layer_id_override` counts through the whole model.

        Raises PlatformError for a layer outside the range and for shapes that do not fit.
        """
        layer_idx = self._layer_to_write(layer, layer_id_override)
        loc = loc.reshape(-1)
        cache_k = self._as_rows("cache_k", cache_k, loc, self.head_num, self.head_dim)
        cache_v = self._as_rows("cache_v", cache_v, loc, self.head_num, self.v_head_dim)
        if loc.numel() == 0:
            return
        cache_k = self._as_stored(cast_rows(cache_k, self.dtype, k_scale))
        cache_v = self._as_stored(cast_rows(cache_v, self.dtype, v_scale))
        self._store_kv_layer(layer_idx, loc, cache_k, cache_v)

    # Reading

    def get_key_buffer(self, layer_id: int) -> torch.Tensor:
        """Keys of a layer, [slots, head_num, head_dim] of `dtype`; a view of the buffer."""
        return self._as_dtype(self.k_buffer[self._layer_to_read(layer_id)])

    def get_value_buffer(self, layer_id: int) -> torch.Tensor:
        """Values of a layer, [slots, head_num, v_head_dim] of `dtype`; a view of the buffer."""
        return self._as_dtype(self.v_buffer[self._layer_to_read(layer_id)])

    def get_kv_buffer(self, layer_id: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of a layer."""
        return self.get_key_buffer(layer_id), self.get_value_buffer(layer_id)

    def get_v_head_dim(self) -> int:
        return self.v_head_dim

    # Copies

    def _slot_buffers(self, layer_index: int) -> list[torch.Tensor]:
        return [self.k_buffer[layer_index], self.v_buffer[layer_index]]

    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        """(addresses, bytes, bytes per page) of every buffer, keys of all layers first; for transfer
        engines."""
        layers = [self._slot_buffers(layer) for layer in range(self.layer_num)]
        return self._page_infos([rows[which] for which in (0, 1) for rows in layers])
