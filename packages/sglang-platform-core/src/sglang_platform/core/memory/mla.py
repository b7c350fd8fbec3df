"""The KV pool of multi-head latent attention (DeepSeek-V2, arXiv 2405.04434)."""

from __future__ import annotations

from typing import Any

import torch

from sglang_platform.core.memory.arguments import require_at_least
from sglang_platform.core.memory.kv_cache import KVCache
from sglang_platform.core.memory.rows import cast_rows, store_rows

__all__ = ["MLATokenToKVPool"]


class MLATokenToKVPool(KVCache):
    """One buffer per layer, [slots, 1, kv_lora_rank + qk_rope_head_dim]: the latent, then the rotated key
    part.

    All heads share a row, so the pool is not divided among tensor-parallel ranks. The values of attention are
    the latent part of the keys: `get_value_buffer` is a view of the same memory.

    A device overrides what it does better:

    - `_create_buffers()` sets `self.kv_buffer`, a list with one tensor per layer, [size + page_size, 1,
      kv_cache_dim] of `store_dtype` on `device`, zeroed.
    - `_scatter_mla_rows(dst_buffer, loc, cache_k_nope, cache_k_rope)` writes rows of one layer: `dst_buffer`
      is that layer's buffer, `loc` [n > 0], `cache_k_nope` [n, 1, a] and `cache_k_rope` [n, 1, b] are already
      cast and viewed as `store_dtype`, a + b is the row's width, b may be 0.
    - `_move_kv_cache_impl`, `get_kv_size_bytes` and `_slot_buffers` as in the MHA pool.

    The names are SGLang 0.5.23's.
    """

    kv_buffer: list[torch.Tensor]
    # Slots per row under decode context parallelism.
    _write_loc_dcp_span: int = 1
    dsa_kv_cache_store_fp8: bool = False
    """Whether rows are in the packed 8-bit format of sparse attention."""

    def __init__(
        self,
        size: int,
        page_size: int,
        dtype: torch.dtype,
        kv_lora_rank: int,
        qk_rope_head_dim: int,
        layer_num: int,
        device: str | torch.device,
        enable_memory_saver: bool,
        start_layer: int | None = None,
        end_layer: int | None = None,
        use_dsa: bool = False,
        override_kv_cache_dim: int | None = None,
        dcp_replicated: bool = False,
    ) -> None:
        """`override_kv_cache_dim` is the row's width in bytes in the packed fp8 format of DSA, and acts with `use_dsa`
        only. `dcp_replicated` is kept for the host. Raises PlatformError for invalid sizes."""
        super().__init__(
            size, page_size, dtype, layer_num, device, enable_memory_saver, start_layer, end_layer
        )
        require_at_least(self, 1, kv_lora_rank=kv_lora_rank)
        require_at_least(self, 0, qk_rope_head_dim=qk_rope_head_dim)
        self.kv_lora_rank = kv_lora_rank
        self.qk_rope_head_dim = qk_rope_head_dim
        self.use_dsa = use_dsa
        self.dcp_replicated = dcp_replicated
        self.kv_cache_dim = self._row_width(override_kv_cache_dim)
        self._create_buffers()
        self._checked_buffers("kv_buffer")
        if not use_dsa:
            self._record_usage()

    def _row_width(self, override_kv_cache_dim: int | None) -> int:
        return self.kv_lora_rank + self.qk_rope_head_dim

    # Overridable

    def _create_buffers(self) -> None:
        """Allocate `kv_buffer`; see the class."""
        rows = self.size + self.page_size
        self.kv_buffer = [self._zeros(rows, 1, self.kv_cache_dim) for _ in range(self.layer_num)]

    def _scatter_mla_rows(
        self,
        dst_buffer: torch.Tensor,
        loc: torch.Tensor,
        cache_k_nope: torch.Tensor,
        cache_k_rope: torch.Tensor,
    ) -> None:
        """Write rows of one layer, given in two parts; see the class."""
        store_rows(dst_buffer, loc, torch.cat((cache_k_nope, cache_k_rope), dim=-1))

    def get_kv_size_bytes(self) -> int:
        """Bytes of all buffers."""
        return sum(b.nbytes for b in self.kv_buffer)

    # Writing

    def set_kv_buffer(
        self,
        layer: Any,
        loc: torch.Tensor,
        cache_k: torch.Tensor,
        cache_v: torch.Tensor | None,
        layer_id_override: int | None = None,
    ) -> None:
        """Store whole rows: `cache_k` [n, 1, kv_lora_rank + qk_rope_head_dim] for slots `loc` [n].

        `cache_v` is not read: the values are part of the keys. Casting, strides and errors as in
        `set_mla_kv_buffer`.
        """
        cache_k = self._as_rows("cache_k", cache_k, loc, 1, self.kv_lora_rank + self.qk_rope_head_dim)
        nope, rope = cache_k.split((self.kv_lora_rank, self.qk_rope_head_dim), dim=-1)
        self.set_mla_kv_buffer(layer, loc, nope, rope, layer_id_override)

    def set_mla_kv_buffer(
        self,
        layer: Any,
        loc: torch.Tensor,
        cache_k_nope: torch.Tensor,
        cache_k_rope: torch.Tensor | None,
        layer_id_override: int | None = None,
    ) -> None:
        """Store rows in two parts: the latent [n, 1, kv_lora_rank], the rotated part [n, 1,
        qk_rope_head_dim].

        Both may leave out the 1 and have any strides; `cache_k_rope` may be None where the model has no such
        part. Cast to the pool's dtype, saturating for fp8. Called by the attention backend, once per layer
        and step.

        Raises PlatformError for a layer outside the range and for shapes that do not fit.
        """
        layer_idx = self._layer_to_write(layer, layer_id_override)
        loc = loc.reshape(-1)
        if cache_k_rope is None:
            cache_k_rope = cache_k_nope.new_empty((loc.numel(), 1, 0))
        nope = self._as_rows("cache_k_nope", cache_k_nope, loc, 1, self.kv_lora_rank)
        rope = self._as_rows("cache_k_rope", cache_k_rope, loc, 1, self.qk_rope_head_dim)
        if loc.numel():
            self._scatter_mla_rows(self.kv_buffer[layer_idx], loc, *self._stored_parts(nope, rope))

    def _stored_parts(self, nope: torch.Tensor, rope: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self._as_stored(cast_rows(nope, self.dtype)), self._as_stored(cast_rows(rope, self.dtype))

    # Reading

    def get_key_buffer(self, layer_id: int) -> torch.Tensor:
        """Rows of a layer, [slots, 1, kv_cache_dim] of `dtype`; a view of the buffer."""
        return self._as_dtype(self.kv_buffer[self._layer_to_read(layer_id)])

    def get_value_buffer(self, layer_id: int) -> torch.Tensor:
        """The latent part of a layer's rows, [slots, 1, kv_lora_rank] of `dtype`; a view of the buffer."""
        return self.get_key_buffer(layer_id)[..., : self.kv_lora_rank]

    def get_kv_buffer(self, layer_id: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of a layer, over the same memory."""
        return self.get_key_buffer(layer_id), self.get_value_buffer(layer_id)

    def get_mla_kv_buffer(
        self, layer: Any, loc: torch.Tensor, dst_dtype: torch.dtype | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """A copy of the rows of slots `loc` [n] in two parts, [n, 1, kv_lora_rank] and [n, 1,
        qk_rope_head_dim].

        In `dst_dtype`, by default the pool's. The second is None where the model has no rotated part. Called
        by prefill attention over a cached prefix.
        """
        buffer = self.kv_buffer[self._layer_to_read(layer.layer_id)]
        nope, rope = self._loaded_parts(buffer.index_select(0, loc.reshape(-1)))
        dtype = dst_dtype or self.dtype
        return nope.to(dtype), rope.to(dtype) if self.qk_rope_head_dim else None

    def _loaded_parts(self, stored: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        nope, rope = self._as_dtype(stored).split((self.kv_lora_rank, self.qk_rope_head_dim), dim=-1)
        return nope, rope

    # Copies

    def _slot_buffers(self, layer_index: int) -> list[torch.Tensor]:
        return [self.kv_buffer[layer_index]]

    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        """(addresses, bytes, bytes per page) of every layer's buffer; for transfer engines."""
        return self._page_infos([self._slot_buffers(layer)[0] for layer in range(self.layer_num)])
