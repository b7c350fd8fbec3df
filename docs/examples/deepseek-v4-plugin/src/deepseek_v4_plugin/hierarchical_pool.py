"""The pool with its hot pages on the device and the others behind, in host memory.

The allocator lends slots of the whole pool. `slot_map` says where on the device a slot's row lies, -1 for a page that
is behind. Host memory is sparse: a page has some once it was written and left the device.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar, NoReturn

import torch

from deepseek_v4_plugin.hot_pages import HotPages
from deepseek_v4_plugin.page_follower import FOLLOWER
from deepseek_v4_plugin.token_pool import V4TokenPool
from sglang_platform.core import counter
from sglang_platform.core.registries import RegistryError
from sglang_platform.core.registries.events import listeners

__all__ = ["HierarchicalPool"]

_from_host = counter("deepseek_v4.hierarchical_pool.pages_from_host")
_to_host = counter("deepseek_v4.hierarchical_pool.pages_to_host")


class HierarchicalPool(V4TokenPool):
    """`tokens` and `kv_buffer` have `hot_pages * page_size` rows, page 0's among them. A subclass says `hot_pages`."""

    _is_v4_hierarchical_pool: ClassVar[bool] = True
    hot_pages: ClassVar[int]

    def _create_buffers(self) -> None:
        if listeners.get(FOLLOWER) is None:
            raise RegistryError(
                "the hierarchical pool has no follower of the engine's batches",
                why=f"no lifecycle listener {FOLLOWER!r} is registered: pages behind would be read where they are not",
                fix="set DSV4_EVENTS=1 beside DSV4_HOT_PAGES",
            )
        self._create_rows(self.hot_pages * self.page_size)
        self.hot = HotPages(self.hot_pages)
        self.behind: dict[int, torch.Tensor] = {}  # page -> [page_size, layers, width] in host memory
        self._unsaved: set[int] = set()
        self.slot_map = torch.empty(self.size + self.page_size, dtype=torch.int64, device=self.device)
        self.forget()

    def forget(self) -> None:
        """No slot holds anything: after the host flushed its cache."""
        self.hot.clear()
        self.behind.clear()
        self._unsaved.clear()
        self.slot_map.fill_(-1)
        self._map(0, 0)

    def bring(self, forward_batch: Any, req_to_token: torch.Tensor) -> None:
        """Have all pages on the device that a step reads or writes. `req_to_token` [requests, positions]."""
        lengths = forward_batch.seq_lens
        longest = int(lengths.max()) if lengths.numel() else 0
        seen = torch.arange(longest, device=req_to_token.device) < lengths[:, None]
        slots = req_to_token[forward_batch.req_pool_indices.long(), :longest][seen]
        written = self._pages(forward_batch.out_cache_loc)
        self.make_hot(self._pages(slots) | written, written)

    def _pages(self, slots: torch.Tensor) -> set[int]:
        return set((slots.long() // self.page_size).unique().tolist())

    def make_hot(self, read: Collection[int], written: Collection[int]) -> None:
        """Bring the pages of a step to the device; `written` are those of `read` that it writes to."""
        for page, place, evicted in self.hot.take(read):
            rows = self._rows(place)
            if evicted is not None:
                self._map(evicted, None)
                if evicted in self._unsaved:
                    self.behind[evicted] = self.tokens[rows].to("cpu", copy=True)
                    self._unsaved.discard(evicted)
                    _to_host.add()
            if page in self.behind:
                self.tokens[rows] = self.behind[page].to(self.tokens.device)
                _from_host.add()
            self._map(page, place)
        self._unsaved.update(written)

    def _rows(self, place: int) -> slice:
        return slice(place * self.page_size, (place + 1) * self.page_size)

    def _map(self, page: int, place: int | None) -> None:
        rows = self._rows(page)
        if place is None:
            self.slot_map[rows] = -1
        else:
            first = place * self.page_size
            self.slot_map[rows] = torch.arange(first, first + self.page_size, device=self.slot_map.device)

    def _scatter_mla_rows(
        self,
        dst_buffer: torch.Tensor,
        loc: torch.Tensor,
        cache_k_nope: torch.Tensor,
        cache_k_rope: torch.Tensor,
    ) -> None:
        super()._scatter_mla_rows(dst_buffer, self.slot_map[loc.long()], cache_k_nope, cache_k_rope)

    def get_mla_kv_buffer(
        self, layer: Any, loc: torch.Tensor, dst_dtype: torch.dtype | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        return super().get_mla_kv_buffer(layer, self.slot_map[loc.reshape(-1).long()], dst_dtype)

    def _whole(self, *args: Any, **kwargs: Any) -> NoReturn:
        """What the host would do to rows by their slot, without a step that makes them hot."""
        raise NotImplementedError(f"{type(self).__name__} moves and copies pages by itself only")

    move_kv_cache = get_cpu_copy = load_cpu_copy = _whole
