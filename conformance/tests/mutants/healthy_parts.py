"""Attention backends, allocators and graph runners with which nothing is wrong, unlike the reference's."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import torch

from sglang_platform.conformance.reference.allocator import ReferencePagedAllocator
from sglang_platform.conformance.reference.attention import ReferenceAttention
from sglang_platform.conformance.reference.graph_runner import ReferenceGraphRunner


class RowsBySlot:
    """Rows [n, heads, dim] of the slots that it is asked for, whatever the layout: no others are copied."""

    def __init__(self, pool: Any, buffer: torch.Tensor, heads: int, dim: int) -> None:
        self._pool, self._heads, self._dim = pool, heads, dim
        self._stored = buffer if pool.store_dtype == pool.dtype else buffer.view(pool.store_dtype)

    def __getitem__(self, slots: torch.Tensor) -> torch.Tensor:
        return self._pool.take(self._stored, slots, self._heads, self._dim).view(self._pool.dtype)  # type: ignore[no-any-return]


class BothParts:
    """Latent rows of the slots that it is asked for, from two buffers; the first `width` numbers of them."""

    def __init__(self, latent: torch.Tensor, rotated: torch.Tensor, width: int | None = None) -> None:
        self._parts, self._width = (latent, rotated), width

    def __getitem__(self, slots: torch.Tensor) -> torch.Tensor:
        return torch.cat([part[slots] for part in self._parts], dim=-1)[..., : self._width]

    def first(self, width: int) -> BothParts:
        return BothParts(*self._parts, width)


def _by_slot(pool: Any, buffer: torch.Tensor, heads: int, dim: int) -> Any:
    """What a getter answered, to be indexed by slots."""
    if hasattr(pool, "take"):
        return RowsBySlot(pool, buffer, heads, dim)
    return pool.plain(buffer, heads, dim) if hasattr(pool, "plain") else buffer


class PlainRows:
    """A pool as the reference's attention reads it: its getters answer rows by slot, copied from what it has."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def get_key_buffer(self, layer_id: int) -> Any:
        pool = self._pool
        keys = pool.get_key_buffer(layer_id)
        if hasattr(pool, "rotated") and pool.qk_rope_head_dim:
            return BothParts(keys, pool.get_value_buffer(layer_id))
        heads, dim = getattr(pool, "head_num", 1), getattr(pool, "head_dim", 0)
        return _by_slot(pool, keys, heads, dim)

    def get_value_buffer(self, layer_id: int) -> Any:
        pool = self._pool
        if hasattr(pool, "kv_lora_rank"):
            keys = self.get_key_buffer(layer_id)
            return (
                keys.first(pool.kv_lora_rank)
                if isinstance(keys, BothParts)
                else keys[..., : pool.kv_lora_rank]
            )
        return _by_slot(pool, pool.get_value_buffer(layer_id), pool.head_num, pool.v_head_dim)


class OverLayouts(ReferenceAttention):
    """Over pools of any layout."""

    def __init__(self, model_runner: Any) -> None:
        super().__init__(model_runner)
        self.token_to_kv_pool = PlainRows(model_runner.token_to_kv_pool)


class OfThreeDimensions(ReferenceAttention):
    """Takes keys and values by heads only, as SGLang's attention layer hands them over."""

    def _forward(self, q: Any, k: Any, v: Any, layer: Any, *args: Any) -> torch.Tensor:
        for rows, dim in ((k, layer.qk_head_dim), (v, layer.v_head_dim)):
            if rows is not None and (rows.dim() != 3 or rows.shape[-1] != dim):
                raise ValueError(f"keys and values are [tokens, heads, dim], not {list(rows.shape)}")
        return super()._forward(q, k, v, layer, *args)


class ByMetadata(ReferenceAttention):
    """Reads the batch in `init_forward_metadata()` only, into memory of its own, for all layers of the step."""

    def init_forward_metadata(self, forward_batch: Any) -> None:
        super().init_forward_metadata(forward_batch)
        self._step = self._kept(forward_batch)

    def init_forward_metadata_in_graph(self, forward_batch: Any) -> None:
        super().init_forward_metadata_in_graph(forward_batch)
        self._step = self._kept(forward_batch)

    def _kept(self, batch: Any) -> SimpleNamespace:
        names = ("seq_lens", "req_pool_indices", "extend_seq_lens")
        found = {name: getattr(batch, name, None) for name in names}
        return SimpleNamespace(**{name: None if t is None else t.clone() for name, t in found.items()})

    def _forward(
        self, q: Any, k: Any, v: Any, layer: Any, batch: Any, save: bool, lengths: Any, news: Any, sinks: Any
    ) -> torch.Tensor:
        kept = SimpleNamespace(
            out_cache_loc=batch.out_cache_loc, req_pool_indices=self._step.req_pool_indices
        )
        lengths = self._step.seq_lens.tolist()
        return super()._forward(q, k, v, layer, kept, save, lengths, news, sinks)


class LikeTheNPUs(ReferencePagedAllocator):
    """alloc_extend() and alloc_decode() answer int32, as SGLang's own NPU allocator does."""

    def alloc_extend(self, *args: Any, **kwargs: Any) -> torch.Tensor | None:
        slots = super().alloc_extend(*args, **kwargs)
        return None if slots is None else slots.int()

    def alloc_decode(self, *args: Any, **kwargs: Any) -> torch.Tensor | None:
        slots = super().alloc_decode(*args, **kwargs)
        return None if slots is None else slots.int()


class HighestFirst(ReferencePagedAllocator):
    """Lends the last pages first."""

    def clear(self) -> None:
        super().clear()
        self._free.reverse()


class InNoOrder(ReferencePagedAllocator):
    """Lends pages in no order, so that no two are neighbours for long; in order where that is asked for."""

    def clear(self) -> None:
        super().clear()
        random.Random(7).shuffle(self._free)

    def _give_back_pages(self, pages: list[int]) -> None:
        super()._give_back_pages(pages)
        if not self.need_sort:
            free, anywhere = self._free, random.Random(len(self._free))
            for at in range(len(pages)):  # those come first
                other = anywhere.randrange(len(free))
                free[at], free[other] = free[other], free[at]


class ExactSizes(ReferenceGraphRunner):
    """Captures the sizes asked for, and leaves every other one to the model: no batch is padded."""

    def can_run_graph(self, forward_batch: Any) -> bool:
        return super().can_run_graph(forward_batch) and forward_batch.batch_size in self.captured


class FewSizes(ReferenceGraphRunner):
    """Captures the largest size asked for and one request, for want of memory, and declines what lies far between."""

    def _batch_sizes(self) -> list[int]:
        return [1, max(super()._batch_sizes())]

    def can_run_graph(self, forward_batch: Any) -> bool:
        n = forward_batch.batch_size
        return super().can_run_graph(forward_batch) and (n == 1 or n > self.max_bs // 2)


class OneSize(ReferenceGraphRunner):
    """Captures one request only."""

    def _batch_sizes(self) -> list[int]:
        return [1]


class OwnBuckets(ReferenceGraphRunner):
    """Captures multiples of eight, whatever was asked for."""

    def _batch_sizes(self) -> list[int]:
        return [8, 16]
