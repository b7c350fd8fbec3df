"""An MHA pool of whole pages, [pages, page_size, heads, dim], all layers in one storage; copies as one block of bytes.

Permitted by: docs/contract.md ("`_slot_buffers` for buffers of another shape than a row per slot"),
KVCache._slot_buffers ("Views [slots, ...] of a layer's buffers ...; paged buffers are flattened"),
KVCache._checked_buffers (a list of one tensor per layer, of any storage), KVCache.get_cpu_copy ("opaque, for
`load_cpu_copy`"). Where `size` is no multiple of the page, the last page's rest is padding at the end, which
`get_kv_size_bytes` counts ("Bytes of all buffers").

level: memory
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core import MHATokenToKVPool
from sglang_platform.core.errors import PlatformError


@dataclass(frozen=True)
class _Parked:
    """Slots in host memory: `rows` uint8 [slots, bytes of a slot in all buffers]."""

    rows: torch.Tensor


class _PagedPool(MHATokenToKVPool):
    """Rows of a page lie side by side, pages of a layer too, layers one after the other, keys first."""

    def _create_buffers(self) -> None:
        pages = -(-(self.size + self.page_size) // self.page_size)
        shapes = [
            (pages, self.page_size, self.head_num, width)
            for width in (self.head_dim, self.v_head_dim)
            for _ in range(self.layer_num)
        ]
        counts = [a * b * c * d for a, b, c, d in shapes]
        everything = self._zeros(sum(counts))
        views = [part.view(shape) for part, shape in zip(everything.split(counts), shapes, strict=True)] if counts else []
        self.k_buffer, self.v_buffer = views[: self.layer_num], views[self.layer_num :]

    def _slot_buffers(self, layer_index: int) -> list[torch.Tensor]:
        rows = self.size + self.page_size
        return [both[layer_index].flatten(0, 1)[:rows] for both in (self.k_buffer, self.v_buffer)]

    def _store_kv_layer(
        self, layer_idx: int, loc: torch.Tensor, cache_k: torch.Tensor, cache_v: torch.Tensor
    ) -> None:
        for rows, new in zip(self._slot_buffers(layer_idx), (cache_k, cache_v), strict=True):
            rows.index_copy_(0, loc.long(), new)

    def get_key_buffer(self, layer_id: int) -> torch.Tensor:
        return self._as_dtype(self._slot_buffers(self._layer_to_read(layer_id))[0])

    def get_value_buffer(self, layer_id: int) -> torch.Tensor:
        return self._as_dtype(self._slot_buffers(self._layer_to_read(layer_id))[1])

    def _all_slot_buffers(self) -> list[torch.Tensor]:
        return [one for layer in range(self.layer_num) for one in self._slot_buffers(layer)]

    def get_cpu_copy(
        self, indices: torch.Tensor, mamba_indices: Any = None, req_pool_index: Any = None
    ) -> _Parked:
        n = indices.numel()
        parts = [one.index_select(0, indices).flatten(1).view(torch.uint8) for one in self._all_slot_buffers()]
        return _Parked(torch.cat(parts, dim=1).cpu() if parts else torch.empty(n, 0, dtype=torch.uint8))

    def load_cpu_copy(
        self, kv_cache_cpu: Any, indices: torch.Tensor, mamba_indices: Any = None, req_pool_index: Any = None
    ) -> None:
        rows = kv_cache_cpu.rows
        if len(rows) != indices.numel():
            raise PlatformError(f"{len(rows)} slots were copied, and {indices.numel()} are to be loaded")
        buffers = self._all_slot_buffers()
        widths = [one[0].nbytes for one in buffers]
        for one, part in zip(buffers, rows.split(widths, dim=1) if widths else (), strict=True):
            typed = part.contiguous().view(one.dtype).view(len(rows), *one.shape[1:])
            one.index_copy_(0, indices.long(), typed.to(one.device))


class Platform(ReferencePlatform):
    """Pools of latent rows are the reference's."""

    def get_kv_pool_cls(self, *, kind: str) -> type | None:
        return _PagedPool if kind == "mha" else super().get_kv_pool_cls(kind=kind)
