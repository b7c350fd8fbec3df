"""An MHA pool with a guard page behind the keys and behind the values of each layer, both in one storage per layer.

Permitted by: MHATokenToKVPool ("`get_kv_size_bytes()`, when `_create_buffers` allocates more than the two lists") and
("lists with one tensor per layer, of `store_dtype` on `device`, `size + page_size` rows, zeroed": the lists hold
views). 8-bit rows are cast here, by words of KVCache: "divided by the scale (one number per tensor, None: 1) and cast,
saturating for fp8". Copies to the CPU are a tuple of dicts ("opaque, for `load_cpu_copy`").

level: memory
"""

from __future__ import annotations

from typing import Any, TypeAlias

import torch
from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core import MHATokenToKVPool
from sglang_platform.core.errors import PlatformError

_Scale: TypeAlias = "float | torch.Tensor | None"


class _GuardedPool(MHATokenToKVPool):
    """[keys | guard page | values | guard page] per layer; nobody writes to a guard page."""

    def _create_buffers(self) -> None:
        rows, guard = self.size + self.page_size, self.page_size
        self.k_buffer, self.v_buffer = [], []
        for _ in range(self.layer_num):
            keys = (rows + guard) * self.row_dim
            whole = self._zeros(keys + (rows + guard) * self.v_row_dim)
            self.k_buffer.append(whole[: rows * self.row_dim].view(rows, self.head_num, self.head_dim))
            self.v_buffer.append(
                whole[keys : keys + rows * self.v_row_dim].view(rows, self.head_num, self.v_head_dim)
            )

    def get_kv_size_bytes(self) -> tuple[int, int]:
        rows = (self.size + 2 * self.page_size) * self.layer_num * self.store_dtype.itemsize
        return rows * self.row_dim, rows * self.v_row_dim

    def set_kv_buffer(
        self,
        layer: Any,
        loc: torch.Tensor,
        cache_k: torch.Tensor,
        cache_v: torch.Tensor,
        k_scale: _Scale = None,
        v_scale: _Scale = None,
        layer_id_override: int | None = None,
    ) -> None:
        place = self._layer_to_write(layer, layer_id_override)
        loc = loc.reshape(-1).long()
        cache_k = self._as_rows("cache_k", cache_k, loc, self.head_num, self.head_dim)
        cache_v = self._as_rows("cache_v", cache_v, loc, self.head_num, self.v_head_dim)
        for buffers, rows, scale in ((self.k_buffer, cache_k, k_scale), (self.v_buffer, cache_v, v_scale)):
            if len(rows):
                buffers[place].index_copy_(0, loc, self._cast(rows, scale))

    def _cast(self, rows: torch.Tensor, scale: _Scale) -> torch.Tensor:
        if rows.dtype != self.dtype:
            wide = rows.float()
            if scale is not None:
                wide = wide / scale
            if self.store_dtype != self.dtype:
                largest = torch.finfo(self.dtype).max
                wide = wide.clamp(-largest, largest)
            rows = wide.to(self.dtype)
        return self._as_stored(rows.contiguous())

    def get_cpu_copy(
        self, indices: torch.Tensor, mamba_indices: Any = None, req_pool_index: Any = None
    ) -> Any:
        return indices.numel(), {
            (name, place): one.index_select(0, indices).cpu()
            for name, buffers in (("k", self.k_buffer), ("v", self.v_buffer))
            for place, one in enumerate(buffers)
        }

    def load_cpu_copy(
        self, kv_cache_cpu: Any, indices: torch.Tensor, mamba_indices: Any = None, req_pool_index: Any = None
    ) -> None:
        count, parts = kv_cache_cpu
        if count != indices.numel():
            raise PlatformError(f"{count} slots were copied, and {indices.numel()} are to be loaded")
        for (name, place), rows in parts.items():
            into = (self.k_buffer if name == "k" else self.v_buffer)[place]
            into.index_copy_(0, indices.long(), rows.to(into.device))


class Platform(ReferencePlatform):
    """Pools of latent rows are the reference's."""

    def get_kv_pool_cls(self, *, kind: str) -> type | None:
        if kind == "mha":
            return _GuardedPool
        return super().get_kv_pool_cls(kind=kind)
