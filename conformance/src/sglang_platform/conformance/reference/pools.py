"""KV pools, one row per token and layer."""

from __future__ import annotations

from typing import Any

import torch

from sglang_platform.conformance.reference.rows import allocate, as_numbers, as_stored
from sglang_platform.core import MHATokenToKVPool, MLATokenToKVPool
from sglang_platform.core.errors import PlatformError

__all__ = ["ReferenceMHAPool", "ReferenceMLAPool"]


class _Rows:
    """What both pools do with their buffers, whatever is in a row."""

    size: int
    page_size: int
    dtype: torch.dtype
    start_layer: int
    layer_num: int
    layer_transfer_counter: Any

    def _buffers(self) -> list[torch.Tensor]:
        """All buffers, those of layer i at i, i + layer_num, ..."""
        raise NotImplementedError

    def _layer(self, layer_id: int) -> int:
        """The place of a layer: layers are numbered through the whole model."""
        place = layer_id - self.start_layer
        if place < 0 or place >= self.layer_num:
            raise PlatformError(
                f"layer {layer_id} is not in this pool",
                why=f"it holds layers {self.start_layer} to {self.start_layer + self.layer_num - 1}",
            )
        return place

    def _wait(self, layer_id: int) -> None:
        """Until a layer that is loaded back from host memory has arrived."""
        place = self._layer(layer_id)
        if self.layer_transfer_counter is not None:
            self.layer_transfer_counter.wait_until(place)

    def _write(self, buffer: torch.Tensor, loc: torch.Tensor, rows: torch.Tensor) -> None:
        buffer[loc.reshape(-1)] = rows.reshape(-1, *buffer.shape[1:])

    def _move_kv_cache_impl(self, tgt_loc: torch.Tensor, src_loc: torch.Tensor) -> None:
        for buffer in self._buffers():
            buffer[tgt_loc] = buffer[src_loc].clone()

    def get_cpu_copy(
        self, indices: torch.Tensor, mamba_indices: Any = None, req_pool_index: Any = None
    ) -> Any:
        return [buffer[indices].to("cpu") for buffer in self._buffers()]

    def load_cpu_copy(
        self, kv_cache_cpu: Any, indices: torch.Tensor, mamba_indices: Any = None, req_pool_index: Any = None
    ) -> None:
        if len(kv_cache_cpu[0]) != indices.numel():
            raise PlatformError(
                f"{len(kv_cache_cpu[0])} slots were copied, and {indices.numel()} are to be loaded"
            )
        for buffer, rows in zip(self._buffers(), kv_cache_cpu, strict=True):
            buffer[indices] = rows.to(buffer.device)

    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        buffers = self._buffers()
        addresses = [buffer.data_ptr() for buffer in buffers]
        lengths = [buffer.nbytes for buffer in buffers]
        page_lengths = [buffer[0].nbytes * self.page_size for buffer in buffers]
        return addresses, lengths, page_lengths


class ReferenceMHAPool(_Rows, MHATokenToKVPool):
    """Keys [slots, heads, head_dim] and values [slots, heads, v_head_dim] per layer."""

    def _create_buffers(self) -> None:
        self.k_buffer = allocate(self, self.head_num, self.head_dim)
        self.v_buffer = allocate(self, self.head_num, self.v_head_dim)

    def _buffers(self) -> list[torch.Tensor]:
        return self.k_buffer + self.v_buffer

    def get_kv_size_bytes(self) -> tuple[int, int]:
        return sum(k.nbytes for k in self.k_buffer), sum(v.nbytes for v in self.v_buffer)

    def set_kv_buffer(
        self,
        layer: Any,
        loc: torch.Tensor,
        cache_k: torch.Tensor,
        cache_v: torch.Tensor,
        k_scale: float | torch.Tensor | None = None,
        v_scale: float | torch.Tensor | None = None,
        layer_id_override: int | None = None,
    ) -> None:
        place = self._layer(layer.layer_id if layer_id_override is None else layer_id_override)
        self._write(self.k_buffer[place], loc, as_stored(cache_k, self.dtype, k_scale))
        self._write(self.v_buffer[place], loc, as_stored(cache_v, self.dtype, v_scale))

    def get_key_buffer(self, layer_id: int) -> torch.Tensor:
        self._wait(layer_id)
        return as_numbers(self.k_buffer[self._layer(layer_id)], self.dtype)

    def get_value_buffer(self, layer_id: int) -> torch.Tensor:
        self._wait(layer_id)
        return as_numbers(self.v_buffer[self._layer(layer_id)], self.dtype)


class ReferenceMLAPool(_Rows, MLATokenToKVPool):
    """Rows [slots, 1, kv_lora_rank + qk_rope_head_dim] per layer: the latent, then the rotated part."""

    def _create_buffers(self) -> None:
        self.kv_buffer = allocate(self, 1, self.kv_cache_dim)

    def _buffers(self) -> list[torch.Tensor]:
        return self.kv_buffer

    def get_kv_size_bytes(self) -> int:
        return sum(rows.nbytes for rows in self.kv_buffer)

    def set_kv_buffer(
        self,
        layer: Any,
        loc: torch.Tensor,
        cache_k: torch.Tensor,
        cache_v: torch.Tensor | None = None,
        layer_id_override: int | None = None,
    ) -> None:
        place = self._layer(layer.layer_id if layer_id_override is None else layer_id_override)
        self._write(self.kv_buffer[place], loc, as_stored(cache_k, self.dtype))

    def set_mla_kv_buffer(
        self,
        layer: Any,
        loc: torch.Tensor,
        cache_k_nope: torch.Tensor,
        cache_k_rope: torch.Tensor | None,
        layer_id_override: int | None = None,
    ) -> None:
        if loc.numel() == 0:  # of no rows the width cannot be found
            return
        parts = [cache_k_nope] if cache_k_rope is None else [cache_k_nope, cache_k_rope]
        rows = torch.cat([part.reshape(loc.numel(), 1, -1) for part in parts], dim=-1)
        self.set_kv_buffer(layer, loc, rows, None, layer_id_override)

    def get_key_buffer(self, layer_id: int) -> torch.Tensor:
        self._wait(layer_id)
        return as_numbers(self.kv_buffer[self._layer(layer_id)], self.dtype)

    def get_value_buffer(self, layer_id: int) -> torch.Tensor:
        return self.get_key_buffer(layer_id)[..., : self.kv_lora_rank]

    def get_mla_kv_buffer(
        self, layer: Any, loc: torch.Tensor, dst_dtype: torch.dtype | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        self._wait(layer.layer_id)
        latent, rotated = self._parts(self.kv_buffer[self._layer(layer.layer_id)][loc.reshape(-1)])
        dtype = dst_dtype or self.dtype
        return latent.to(dtype), rotated.to(dtype) if self.qk_rope_head_dim else None

    def _parts(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Stored rows [n, 1, width] as the latent and the rotated part."""
        latent, rotated = as_numbers(rows, self.dtype).split(
            (self.kv_lora_rank, self.qk_rope_head_dim), dim=-1
        )
        return latent, rotated
