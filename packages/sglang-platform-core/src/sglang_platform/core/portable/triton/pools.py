"""KV pools for devices that Triton compiles for: core's pools with kernels for the store and the move.

A package passes its store kernels in as `kernels`; the rules for when to launch them are the same on every device.

CPU tensors take core's torch code, which writes the same bytes. In SGLang the rest of a pool (buffers, descriptors,
disaggregation) stays SGLang's, and so do stores that these kernels do not support: layouts other than one row per slot,
quantised pools, masked writes, and the indexer's keys of a DSA pool.
"""

from __future__ import annotations

from itertools import chain
from operator import is_
from typing import Any, ClassVar

import torch

from sglang_platform.core.counters import counter
from sglang_platform.core.memory.dsa import DSATokenToKVPool
from sglang_platform.core.memory.index_keys import IndexKeyCache
from sglang_platform.core.memory.kv_cache import KVCache
from sglang_platform.core.memory.mha import MHATokenToKVPool
from sglang_platform.core.memory.mla import MLATokenToKVPool
from sglang_platform.core.memory.rows import FP8_DTYPES, Scale
from sglang_platform.core.portable.triton.buffer_table import BufferTable, Rows
from sglang_platform.core.portable.triton.index_key_cache import TritonIndexKeyCache
from sglang_platform.core.portable.triton.kv_move import MOST_ROWS, move
from sglang_platform.core.portable.triton.launch import launches
from sglang_platform.core.portable.triton.pool_kernels import PoolKernels

__all__ = ["TritonDSAPool", "TritonMHAPool", "TritonMLAPool"]

_stores = counter("triton.kv_pool.stores")
_moves = counter("triton.kv_pool.moves")


class TritonRows(KVCache):
    """Base of the three pools: the move."""

    kernels: ClassVar[PoolKernels]
    """The package's kernels."""

    _lists: ClassVar[tuple[str, ...]]
    _table_of: tuple[torch.Tensor, ...] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.layer_num and launches(self._slot_buffers(0)[0]):
            self._all_layers()  # now: it copies to the device, which must not happen in a step or a capture

    def _moves_at_once(self, tgt_loc: torch.Tensor) -> bool:
        return 0 < tgt_loc.numel() <= MOST_ROWS and launches(tgt_loc)

    def _move_kv_cache_impl(self, tgt_loc: torch.Tensor, src_loc: torch.Tensor) -> None:
        """One launch for all layers, as if all rows were read first; more than MOST_ROWS rows are copied through
        memory."""
        if not self._moves_at_once(tgt_loc):
            super()._move_kv_cache_impl(tgt_loc, src_loc)
            return
        move(self._all_layers(), tgt_loc, src_loc, shapes=self.kernels.shapes_of(tgt_loc.device))
        _moves.add()

    def _all_layers(self) -> BufferTable:
        # Detect new buffers by tensor identity: comparing their addresses at each move takes ten times as long. Memory
        # that a host backs anew (memory saver, sizing after capture) keeps its addresses.
        held = tuple(chain.from_iterable(getattr(self, name) for name in self._lists))
        if len(held) != len(self._table_of) or not all(map(is_, held, self._table_of)):
            buffers = [buffer for layer in range(self.layer_num) for buffer in self._slot_buffers(layer)]
            self._table, self._table_of = BufferTable([Rows(buffer) for buffer in buffers]), held
        return self._table


class TritonMHAPool(TritonRows, MHATokenToKVPool):
    """Keys and values per head. The store takes both in one launch, divided by their scales and cast on the way."""

    _lists = "k_buffer", "v_buffer"

    def set_kv_buffer(
        self,
        layer: Any,
        loc: torch.Tensor,
        cache_k: torch.Tensor,
        cache_v: torch.Tensor,
        k_scale: Scale = None,
        v_scale: Scale = None,
        layer_id_override: int | None = None,
        **of_the_host: Any,
    ) -> None:
        """As in core's pool, which serves tensors on the CPU. `of_the_host`: keywords that only SGLang's own pool
        knows."""
        slots = _slots(loc)
        if of_the_host or not self._takes_rows(slots, cache_k, cache_v):
            super().set_kv_buffer(
                layer, loc, cache_k, cache_v, k_scale, v_scale, layer_id_override, **of_the_host
            )
            return
        index = self._layer_to_write(layer, layer_id_override)
        cache_k = self._as_rows("cache_k", cache_k, slots, self.head_num, self.head_dim)
        cache_v = self._as_rows("cache_v", cache_v, slots, self.head_num, self.v_head_dim)
        self._store(index, slots, cache_k, cache_v, k_scale, v_scale, self.dtype)

    def _takes_rows(self, slots: torch.Tensor, cache_k: torch.Tensor, cache_v: torch.Tensor) -> bool:
        return (
            launches(slots)
            and (cache_k.dtype in FP8_DTYPES) == (cache_v.dtype in FP8_DTYPES)
            and self.kv_cache_layout == "nhd"
            and not self.is_quantized_kv_cache
            and not self.requires_physical_write_loc
        )

    def _store_kv_layer(
        self, layer_idx: int, loc: torch.Tensor, cache_k: torch.Tensor, cache_v: torch.Tensor
    ) -> None:
        if not launches(loc) or self.kv_cache_layout != "nhd":
            super()._store_kv_layer(layer_idx, loc, cache_k, cache_v)
            return
        self._store(layer_idx, loc, cache_k, cache_v, None, None, self.store_dtype)

    def _store(
        self,
        layer_idx: int,
        loc: torch.Tensor,
        cache_k: torch.Tensor,
        cache_v: torch.Tensor,
        k_scale: Scale,
        v_scale: Scale,
        dtype: torch.dtype,
    ) -> None:
        self.kernels.store_pair(
            cache_k,
            cache_v,
            self.k_buffer[layer_idx],
            self.v_buffer[layer_idx],
            loc,
            k_scale,
            v_scale,
            dtype=dtype,
        )
        _stores.add()

    def _move_kv_cache_impl(self, tgt_loc: torch.Tensor, src_loc: torch.Tensor) -> None:
        if self.kv_cache_layout != "nhd" or self.is_quantized_kv_cache:
            super(TritonRows, self)._move_kv_cache_impl(tgt_loc, src_loc)
        else:
            super()._move_kv_cache_impl(tgt_loc, src_loc)


class _TritonLatentRows(TritonRows, MLATokenToKVPool):
    _lists = ("kv_buffer",)

    def move_kv_cache(self, tgt_loc: torch.Tensor, src_loc: torch.Tensor) -> None:
        # SGLang's MLA pool has no overridable point below this method.
        if tgt_loc.numel() == src_loc.numel() and self._moves_at_once(tgt_loc):
            self._move_kv_cache_impl(tgt_loc.reshape(-1), src_loc.reshape(-1))
        else:
            super().move_kv_cache(tgt_loc, src_loc)

    def _stores_two_parts(self, loc: torch.Tensor) -> bool:
        # SGLang's context-parallel pools write a share of the slots only.
        return launches(loc) and self._write_loc_dcp_span == 1

    def _scatter_mla_rows(
        self,
        dst_buffer: torch.Tensor,
        loc: torch.Tensor,
        cache_k_nope: torch.Tensor,
        cache_k_rope: torch.Tensor,
    ) -> None:
        if not self._stores_two_parts(loc):
            super()._scatter_mla_rows(dst_buffer, loc, cache_k_nope, cache_k_rope)
            return
        self._store_parts(dst_buffer, loc, cache_k_nope, cache_k_rope, self.store_dtype)

    def _store_parts(
        self,
        buffer: torch.Tensor,
        loc: torch.Tensor,
        nope: torch.Tensor,
        rope: torch.Tensor,
        dtype: torch.dtype,
    ) -> None:
        n, width = loc.numel(), nope.shape[-1]
        self.kernels.store_pair(
            nope.reshape(n, 1, width),
            rope.reshape(n, 1, rope.shape[-1]),
            buffer[..., :width],
            buffer[..., width:],
            loc,
            dtype=dtype,
        )
        _stores.add()

    def set_kv_buffer(
        self,
        layer: Any,
        loc: torch.Tensor,
        cache_k: torch.Tensor,
        cache_v: torch.Tensor | None,
        layer_id_override: int | None = None,
    ) -> None:
        """As in core's pool, which serves tensors on the CPU."""
        slots = _slots(loc)
        if not self._takes_rows(slots, cache_k, cache_k):
            super().set_kv_buffer(layer, loc, cache_k, cache_v, layer_id_override)
            return
        rows = self._as_rows("cache_k", cache_k, slots, 1, self.kv_lora_rank + self.qk_rope_head_dim)
        nope, rope = rows.split((self.kv_lora_rank, self.qk_rope_head_dim), dim=-1)
        self._store_cast(self.kv_buffer[self._layer_to_write(layer, layer_id_override)], slots, nope, rope)

    def set_mla_kv_buffer(
        self,
        layer: Any,
        loc: torch.Tensor,
        cache_k_nope: torch.Tensor,
        cache_k_rope: torch.Tensor | None,
        layer_id_override: int | None = None,
    ) -> None:
        """As in core's pool, which serves tensors on the CPU; cast and store in one launch."""
        slots = _slots(loc)
        if cache_k_rope is None or not self._takes_rows(slots, cache_k_nope, cache_k_rope):
            super().set_mla_kv_buffer(layer, loc, cache_k_nope, cache_k_rope, layer_id_override)
            return
        index = self._layer_to_write(layer, layer_id_override)
        nope = self._as_rows("cache_k_nope", cache_k_nope, slots, 1, self.kv_lora_rank)
        rope = self._as_rows("cache_k_rope", cache_k_rope, slots, 1, self.qk_rope_head_dim)
        self._store_cast(self.kv_buffer[index], slots, nope, rope)

    def _takes_rows(self, slots: torch.Tensor, nope: torch.Tensor, rope: torch.Tensor) -> bool:
        return (
            self._stores_two_parts(slots)
            and (nope.dtype in FP8_DTYPES) == (rope.dtype in FP8_DTYPES)
            and not self.requires_physical_write_loc
        )

    def _store_cast(
        self, buffer: torch.Tensor, loc: torch.Tensor, nope: torch.Tensor, rope: torch.Tensor
    ) -> None:
        self._store_parts(buffer, loc, nope, rope, self.dtype)


class TritonMLAPool(_TritonLatentRows):
    """One latent row per token. The latent and the rotated part go in one launch, cast on the way."""


class TritonDSAPool(_TritonLatentRows, DSATokenToKVPool):
    """MLA rows, plain or in the packed fp8 format, and the indexer's keys."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Under SGLang the index key cache is SGLang's class, whose layout depends on the kernels that it selects: do
        # not wrap it. `_create_index_key_cache` is not overridden, so that the adapter keeps SGLang's implementation.
        if type(self.index_key_cache) is IndexKeyCache:
            self.index_key_cache = TritonIndexKeyCache(self.index_key_cache, self.kernels.shapes_of)

    def _store_cast(
        self, buffer: torch.Tensor, loc: torch.Tensor, nope: torch.Tensor, rope: torch.Tensor
    ) -> None:
        if not self.dsa_kv_cache_store_fp8:
            super()._store_cast(buffer, loc, nope, rope)
            return
        self.kernels.store_packed(nope, rope, buffer, loc, dtype=self.dtype)
        _stores.add()

    def _move_kv_cache_impl(self, tgt_loc: torch.Tensor, src_loc: torch.Tensor) -> None:
        super()._move_kv_cache_impl(tgt_loc, src_loc)
        if self._moves_at_once(tgt_loc):  # otherwise core's pool has done both
            self.index_key_cache.move(tgt_loc, src_loc)


def _slots(loc: Any) -> torch.Tensor:
    # SGLang hands pools a KVWriteLoc or a bare tensor.
    slots: torch.Tensor = loc if isinstance(loc, torch.Tensor) else loc.loc
    return slots.reshape(-1)
