"""Pools with which nothing is wrong, in layouts that devices have: paged, heads first, padded, interleaved, in tiles.

Each says in three functions what its buffers are, how rows get in and how they come out. All are on core's base class;
the attention that reads them is the reference's, which is handed the rows.
"""

from __future__ import annotations

from typing import Any

import torch

from sglang_platform.conformance.reference.dsa_pool import ReferenceDSAPool
from sglang_platform.conformance.reference.pools import ReferenceMLAPool
from sglang_platform.core import MHATokenToKVPool


def _zeros(pool: Any, *shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=pool.store_dtype, device=pool.device)


class LaidOut(MHATokenToKVPool):
    """Buffers of a shape of their own, one of keys and one of values for each layer."""

    def make(self, heads: int, dim: int) -> torch.Tensor:
        raise NotImplementedError("the layout's own")

    def put(self, buffer: torch.Tensor, loc: torch.Tensor, rows: torch.Tensor) -> None:
        raise NotImplementedError("the layout's own")

    def take(self, buffer: torch.Tensor, loc: torch.Tensor, heads: int, dim: int) -> torch.Tensor:
        """A copy of rows [n, heads, dim]."""
        raise NotImplementedError("the layout's own")

    @property
    def pages(self) -> int:
        """With the padding page; slots that fill no page are lent by nobody, and have memory all the same."""
        return -(-(self.size + self.page_size) // self.page_size)

    def plain(self, buffer: torch.Tensor, heads: int, dim: int) -> torch.Tensor:
        """All rows of what a getter answers, [slots, heads, dim]."""
        stored = buffer if self.store_dtype == self.dtype else buffer.view(self.store_dtype)
        rows = self.take(stored, torch.arange(self.size + self.page_size), heads, dim)
        return rows.view(self.dtype)

    def _create_buffers(self) -> None:
        self.k_buffer = [self.make(self.head_num, self.head_dim) for _ in range(self.layer_num)]
        self.v_buffer = [self.make(self.head_num, self.v_head_dim) for _ in range(self.layer_num)]

    def _store_kv_layer(
        self, layer_idx: int, loc: torch.Tensor, cache_k: torch.Tensor, cache_v: torch.Tensor
    ) -> None:
        self.put(self.k_buffer[layer_idx], loc.long(), cache_k)
        self.put(self.v_buffer[layer_idx], loc.long(), cache_v)

    def _parts(self) -> list[tuple[torch.Tensor, int]]:
        return [(b, self.head_dim) for b in self.k_buffer] + [(b, self.v_head_dim) for b in self.v_buffer]

    def _move_kv_cache_impl(self, tgt_loc: torch.Tensor, src_loc: torch.Tensor) -> None:
        for buffer, dim in self._parts():
            self.put(buffer, tgt_loc, self.take(buffer, src_loc, self.head_num, dim))

    def get_cpu_copy(self, indices: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return [self.take(buffer, indices, self.head_num, dim).cpu() for buffer, dim in self._parts()]

    def load_cpu_copy(self, kv_cache_cpu: Any, indices: torch.Tensor, *args: Any, **kwargs: Any) -> None:
        for (buffer, _), rows in zip(self._parts(), kv_cache_cpu, strict=True):
            self.put(buffer, indices, rows)

    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        raise NotImplementedError(
            f"{type(self).__name__}: a page does not lie in one piece, nothing can fetch it"
        )


class Paged(MHATokenToKVPool):
    """[pages, page, heads, dim]; all else follows from the view of it by slots."""

    def _create_buffers(self) -> None:
        pages = -(-(self.size + self.page_size) // self.page_size)
        self.k_buffer = [
            _zeros(self, pages, self.page_size, self.head_num, self.head_dim) for _ in range(self.layer_num)
        ]
        self.v_buffer = [
            _zeros(self, pages, self.page_size, self.head_num, self.v_head_dim) for _ in range(self.layer_num)
        ]

    def _slot_buffers(self, layer_index: int) -> list[torch.Tensor]:
        return [self.k_buffer[layer_index].flatten(0, 1), self.v_buffer[layer_index].flatten(0, 1)]

    def _store_kv_layer(
        self, layer_idx: int, loc: torch.Tensor, cache_k: torch.Tensor, cache_v: torch.Tensor
    ) -> None:
        for rows, given in zip(self._slot_buffers(layer_idx), (cache_k, cache_v), strict=True):
            rows[loc.long()] = given

    def plain(self, buffer: torch.Tensor, heads: int, dim: int) -> torch.Tensor:
        return buffer.flatten(0, 1)


class AscendPaged(Paged):
    """The same, as views of one tensor for all layers, as SGLang's own Ascend pools have it."""

    def _create_buffers(self) -> None:
        pages = -(-(self.size + self.page_size) // self.page_size)
        shape = (self.layer_num, pages, self.page_size, self.head_num)
        self.k_buffer = list(_zeros(self, *shape, self.head_dim))
        self.v_buffer = list(_zeros(self, *shape, self.v_head_dim))


class AscendFia(AscendPaged):
    """Handed out as [slots, 1, heads, dim], as they do for their fused attention."""

    def _create_buffers(self) -> None:
        super()._create_buffers()
        self.k_buffer = [b.flatten(0, 1).unsqueeze(1) for b in self.k_buffer]
        self.v_buffer = [b.flatten(0, 1).unsqueeze(1) for b in self.v_buffer]


class HeadsFirst(LaidOut):
    """[heads, slots, dim]"""

    def make(self, heads: int, dim: int) -> torch.Tensor:
        return _zeros(self, heads, self.size + self.page_size, dim)

    def put(self, buffer: torch.Tensor, loc: torch.Tensor, rows: torch.Tensor) -> None:
        buffer[:, loc] = rows.transpose(0, 1)

    def take(self, buffer: torch.Tensor, loc: torch.Tensor, heads: int, dim: int) -> torch.Tensor:
        return buffer[:, loc].transpose(0, 1).contiguous()


class PagedHeadsFirst(LaidOut):
    """[pages, heads, page, dim]"""

    def make(self, heads: int, dim: int) -> torch.Tensor:
        return _zeros(self, self.pages, heads, self.page_size, dim)

    def put(self, buffer: torch.Tensor, loc: torch.Tensor, rows: torch.Tensor) -> None:
        buffer[loc // self.page_size, :, loc % self.page_size] = rows

    def take(self, buffer: torch.Tensor, loc: torch.Tensor, heads: int, dim: int) -> torch.Tensor:
        return buffer[loc // self.page_size, :, loc % self.page_size].clone()

    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        buffers = [*self.k_buffer, *self.v_buffer]
        return [b.data_ptr() for b in buffers], [b.nbytes for b in buffers], [b[0].nbytes for b in buffers]


class ByHeadsForTransfer(HeadsFirst):
    """[heads, slots, dim], listed head by head, since a head's part of a page lies in one piece."""

    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        heads = [head for buffer in (*self.k_buffer, *self.v_buffer) for head in buffer]
        return (
            [h.data_ptr() for h in heads],
            [h.nbytes for h in heads],
            [h[0].nbytes * self.page_size for h in heads],
        )


class Padded(LaidOut):
    """[slots, heads, dim up to the next 32], handed out as it is, and counted whole."""

    def make(self, heads: int, dim: int) -> torch.Tensor:
        return _zeros(self, self.size + self.page_size, heads, -(-dim // 32) * 32)

    def put(self, buffer: torch.Tensor, loc: torch.Tensor, rows: torch.Tensor) -> None:
        buffer[loc, :, : rows.shape[-1]] = rows

    def take(self, buffer: torch.Tensor, loc: torch.Tensor, heads: int, dim: int) -> torch.Tensor:
        return buffer[loc, :, :dim].clone()

    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        buffers = [*self.k_buffer, *self.v_buffer]
        page = self.page_size
        return (
            [b.data_ptr() for b in buffers],
            [b.nbytes for b in buffers],
            [b[0].nbytes * page for b in buffers],
        )


class PaddedInside(Padded):
    """The same, handed out without what is padded."""

    def get_key_buffer(self, layer_id: int) -> torch.Tensor:
        return super().get_key_buffer(layer_id)[..., : self.head_dim]

    def get_value_buffer(self, layer_id: int) -> torch.Tensor:
        return super().get_value_buffer(layer_id)[..., : self.v_head_dim]


class RowsRoundedUp(Padded):
    """Slots up to the next 64, dim as it is."""

    def make(self, heads: int, dim: int) -> torch.Tensor:
        return _zeros(self, -(-(self.size + self.page_size) // 64) * 64, heads, dim)


class BfloatRows(RowsRoundedUp):
    """Of one dtype only."""

    supported_dtypes = (torch.bfloat16,)


class Flat(LaidOut):
    """[slots, heads * dim]"""

    def make(self, heads: int, dim: int) -> torch.Tensor:
        return _zeros(self, self.size + self.page_size, heads * dim)

    def put(self, buffer: torch.Tensor, loc: torch.Tensor, rows: torch.Tensor) -> None:
        buffer[loc] = rows.reshape(len(rows), -1)

    def take(self, buffer: torch.Tensor, loc: torch.Tensor, heads: int, dim: int) -> torch.Tensor:
        return buffer[loc].reshape(-1, heads, dim)


class Interleaved(LaidOut):
    """One buffer for each layer, [slots, heads, dim of keys and of values]; transfer is refused."""

    def _create_buffers(self) -> None:
        slots = self.size + self.page_size
        self.whole = [
            _zeros(self, slots, self.head_num, self.head_dim + self.v_head_dim) for _ in range(self.layer_num)
        ]
        self.k_buffer = [b[..., : self.head_dim] for b in self.whole]
        self.v_buffer = [b[..., self.head_dim :] for b in self.whole]

    def put(self, buffer: torch.Tensor, loc: torch.Tensor, rows: torch.Tensor) -> None:
        buffer[loc] = rows

    def take(self, buffer: torch.Tensor, loc: torch.Tensor, heads: int, dim: int) -> torch.Tensor:
        return buffer[loc]


class OneSlab(Interleaved):
    """Keys and values of all layers in one piece of memory, [slots, layers, heads, dim of both]."""

    def _create_buffers(self) -> None:
        slots, dims = self.size + self.page_size, self.head_dim + self.v_head_dim
        slab = _zeros(self, slots, self.layer_num, self.head_num, dims)
        self.k_buffer = [slab[:, i, :, : self.head_dim] for i in range(self.layer_num)]
        self.v_buffer = [slab[:, i, :, self.head_dim :] for i in range(self.layer_num)]


class HalfAndFp8Slab(OneSlab):
    """Of two dtypes only."""

    supported_dtypes = (torch.float16, torch.float8_e5m2)


class Vectors(LaidOut):
    """[pages, heads, dim / x, page, x], vectors of up to 8 numbers side by side, as kernels load them."""

    def _x(self, dim: int) -> int:
        return next(x for x in (8, 4, 2, 1) if dim % x == 0)

    def make(self, heads: int, dim: int) -> torch.Tensor:
        x = self._x(dim)
        return _zeros(self, self.pages, heads, dim // x, self.page_size, x)

    def put(self, buffer: torch.Tensor, loc: torch.Tensor, rows: torch.Tensor) -> None:
        n, heads, dim = rows.shape
        x = self._x(dim)
        buffer[loc // self.page_size, :, :, loc % self.page_size] = rows.reshape(n, heads, dim // x, x)

    def take(self, buffer: torch.Tensor, loc: torch.Tensor, heads: int, dim: int) -> torch.Tensor:
        return buffer[loc // self.page_size, :, :, loc % self.page_size].reshape(-1, heads, dim)


class Columns(LaidOut):
    """[pages, heads, dim, page], each number of a page's tokens side by side."""

    def make(self, heads: int, dim: int) -> torch.Tensor:
        return _zeros(self, self.pages, heads, dim, self.page_size)

    def put(self, buffer: torch.Tensor, loc: torch.Tensor, rows: torch.Tensor) -> None:
        buffer[loc // self.page_size, :, :, loc % self.page_size] = rows

    def take(self, buffer: torch.Tensor, loc: torch.Tensor, heads: int, dim: int) -> torch.Tensor:
        return buffer[loc // self.page_size, :, :, loc % self.page_size].clone()


class PagedLatent(ReferenceMLAPool):
    """Latent rows, [pages, page, 1, width]."""

    def _create_buffers(self) -> None:
        pages = -(-(self.size + self.page_size) // self.page_size)
        super()._create_buffers()
        rows, width = pages * self.page_size, self.kv_buffer[0].shape[-1]
        self.kv_buffer = [b.new_zeros(rows, 1, width) for b in self.kv_buffer]

    def get_key_buffer(self, layer_id: int) -> torch.Tensor:
        return super().get_key_buffer(layer_id).unflatten(0, (-1, self.page_size))

    def plain(self, buffer: torch.Tensor, heads: int, dim: int) -> torch.Tensor:
        return buffer.flatten(0, 1)


class PagedSparse(PagedLatent, ReferenceDSAPool):
    """The same with the indexer's keys."""


class SplitLatent(ReferenceMLAPool):
    """The latent and the rotated part in two buffers, as SGLang's own Ascend pools have it: keys and values."""

    def _create_buffers(self) -> None:
        slots = self.size + self.page_size
        self.kv_buffer = [_zeros(self, slots, 1, self.kv_lora_rank) for _ in range(self.layer_num)]
        self.rotated = [_zeros(self, slots, 1, self.qk_rope_head_dim) for _ in range(self.layer_num)]

    def _buffers(self) -> list[torch.Tensor]:
        return [*self.kv_buffer, *(self.rotated if self.qk_rope_head_dim else [])]

    def get_kv_size_bytes(self) -> int:
        return sum(b.nbytes for b in self._buffers())

    def _write(self, buffer: torch.Tensor, loc: torch.Tensor, rows: torch.Tensor) -> None:
        place = next(i for i, own in enumerate(self.kv_buffer) if own is buffer)
        rows = rows.reshape(-1, 1, self.kv_cache_dim)
        buffer[loc.reshape(-1)] = rows[..., : self.kv_lora_rank]
        self.rotated[place][loc.reshape(-1)] = rows[..., self.kv_lora_rank :]

    def get_value_buffer(self, layer_id: int) -> torch.Tensor:
        self._wait(layer_id)
        held = self.rotated if self.qk_rope_head_dim else self.kv_buffer
        return held[self._layer(layer_id)].view(self.dtype)

    def get_mla_kv_buffer(
        self, layer: Any, loc: torch.Tensor, dst_dtype: torch.dtype | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        self._wait(layer.layer_id)
        place, loc, dtype = self._layer(layer.layer_id), loc.reshape(-1), dst_dtype or self.dtype
        latent, rotated = (b[place][loc].view(self.dtype) for b in (self.kv_buffer, self.rotated))
        return latent.to(dtype), rotated.to(dtype) if self.qk_rope_head_dim else None
