"""The DSA pool: MLA rows and, page by page, the indexer's fp8 keys with their float32 scales.

A page of P tokens is one row of bytes: the keys of all its tokens, then the scales of all (DeepSeek-V3.2; the layout
is SGLang 0.5.23's).
"""

from __future__ import annotations

from typing import Any

import torch

from sglang_platform.conformance.reference.packed_rows import packed, unpacked
from sglang_platform.conformance.reference.pools import ReferenceMLAPool
from sglang_platform.core import DSATokenToKVPool
from sglang_platform.core.errors import PlatformError

__all__ = ["ReferenceDSAPool"]


class ReferenceDSAPool(ReferenceMLAPool, DSATokenToKVPool):
    """Rows as in the MLA pool, or packed where the host asks for their width in bytes with an fp8 dtype; keys and
    scales in core's cache, stored here."""

    def set_kv_buffer(
        self,
        layer: Any,
        loc: torch.Tensor,
        cache_k: torch.Tensor,
        cache_v: torch.Tensor | None = None,
        layer_id_override: int | None = None,
    ) -> None:
        if not self._packs():
            super().set_kv_buffer(layer, loc, cache_k, cache_v, layer_id_override)
            return
        place = self._layer(layer.layer_id if layer_id_override is None else layer_id_override)
        latent, rotated = cache_k.reshape(loc.numel(), cache_k.shape[-1]).split(
            (self.kv_lora_rank, self.qk_rope_head_dim), dim=1
        )
        self._write(self.kv_buffer[place], loc, packed(latent, rotated, self.dtype))

    def _parts(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return unpacked(rows, self.kv_lora_rank, self.dtype) if self._packs() else super()._parts(rows)

    def _packs(self) -> bool:
        """Whether a row is bytes: then it is wider than its numbers are many."""
        return self.kv_cache_dim != self.kv_lora_rank + self.qk_rope_head_dim

    def set_index_k_scale_buffer(
        self, layer_id: int, loc: torch.Tensor, index_k: torch.Tensor, index_k_scale: torch.Tensor
    ) -> None:
        if self.skip_topk_layers[self._layer(layer_id)]:
            raise PlatformError(
                f"layer {layer_id} keeps no indexer keys",
                why="skip_topk_layers says that it takes over the selection of the layer before it",
            )
        if loc.numel() == 0:
            return
        place = self._layer(layer_id)
        buffer = self.index_k_with_scale_buffer[place]
        keys = index_k.contiguous().view(torch.uint8).reshape(loc.numel(), -1)
        scales = index_k_scale.float().contiguous().view(torch.uint8).reshape(loc.numel(), -1)
        for slot, key, scale in zip(loc.tolist(), keys, scales, strict=True):
            page, token = divmod(slot, self.page_size)
            key_at = token * key.numel()
            scale_at = self.page_size * key.numel() + token * scale.numel()
            buffer[page, key_at : key_at + key.numel()] = key
            buffer[page, scale_at : scale_at + scale.numel()] = scale

    def get_kv_size_bytes(self) -> int:
        return super().get_kv_size_bytes() + sum(keys.nbytes for keys in self.index_k_with_scale_buffer)

    def _move_kv_cache_impl(self, tgt_loc: torch.Tensor, src_loc: torch.Tensor) -> None:
        super()._move_kv_cache_impl(tgt_loc, src_loc)
        self.index_key_cache.move(tgt_loc, src_loc)

    def get_cpu_copy(
        self, indices: torch.Tensor, mamba_indices: Any = None, req_pool_index: Any = None
    ) -> Any:
        keys = [
            None if skipped else [part.clone() for part in self.index_key_cache.load(layer, indices)]
            for layer, skipped in enumerate(self.skip_topk_layers)
        ]
        return [super().get_cpu_copy(indices), keys]

    def load_cpu_copy(
        self, kv_cache_cpu: Any, indices: torch.Tensor, mamba_indices: Any = None, req_pool_index: Any = None
    ) -> None:
        rows, keys = kv_cache_cpu
        super().load_cpu_copy(rows, indices)
        for layer, parts in enumerate(keys):
            if parts is not None:
                self.index_key_cache.store_bytes(layer, indices, *parts)
