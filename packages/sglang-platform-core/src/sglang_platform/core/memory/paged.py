"""The paged allocator: a request's tokens fill its last page before it takes another."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from sglang_platform.core.errors import PlatformError
from sglang_platform.core.memory.base_allocator import BaseTokenToKVPoolAllocator
from sglang_platform.core.memory.ids import Ids, as_ids, as_tensor
from sglang_platform.core.memory.page_arithmetic import (
    IntArray,
    count_decode_pages,
    count_extend_pages,
    decode_slots_on_device,
    extend_slots_on_device,
    extend_slots_on_host,
    pages_of_slots_on_host,
)

__all__ = ["PagedTokenToKVPoolAllocator"]


class PagedTokenToKVPoolAllocator(BaseTokenToKVPoolAllocator):
    """Lends pages 1 to `size // page_size`; page p holds slots p * page_size to (p + 1) * page_size - 1.

    The cost of every call is linear in the number of slots it handles. Sizes are computed from the `*_cpu` arguments,
    so that `alloc*` and `free_segment` never wait for the device; `free` does, on a device, because it has to find the
    distinct pages.

    A device may override two kernels (Triton, C++, ...); everything else stays. Their defaults are torch
    operations; on the CPU, unless overridden, numpy serves instead:

    - `_extend_kernel(prefix_lens, seq_lens, last_loc, free_pages, out_indices)`
    - `_decode_kernel(seq_lens, last_loc, free_pages, out_indices)`

    Source: paging as in PagedAttention (Kwon et al., SOSP 2023); interface of SGLang 0.5.23.
    """

    def __init__(
        self,
        size: int,
        page_size: int,
        dtype: torch.dtype,
        device: str | torch.device,
        kvcache: Any,
        need_sort: bool,
    ) -> None:
        super().__init__(size, page_size, dtype, device, kvcache, need_sort)
        if self.num_pages == 0:
            raise PlatformError(
                f"{type(self).__name__}: size {size} is under one page of {page_size} slots",
                why="no page could ever be lent",
                fix="raise the size of the KV cache or lower the page size",
            )
        offsets = torch.arange(page_size, dtype=torch.int64, device=self._torch_device)
        self._page_offsets: Ids = as_ids(offsets, self._free_list.ids)
        base, on_host = PagedTokenToKVPoolAllocator, self._free_list.on_host
        self._numpy_extend = on_host and type(self)._extend_kernel is base._extend_kernel
        self._numpy_decode = on_host and type(self)._decode_kernel is base._decode_kernel

    def alloc(self, need_size: int) -> torch.Tensor | None:
        """`need_size` slots in whole pages, int64 [need_size]; None when they are not free, with nothing
        changed.

        Raises PlatformError when `need_size` is not a multiple of the page size.
        """
        pages, rest = divmod(need_size, self.page_size)
        if rest or pages < 0:
            raise PlatformError(
                f"alloc({need_size}) on an allocator with pages of {self.page_size} slots",
                why="alloc() lends whole pages",
                fix="round up to a multiple of page_size, or use alloc_extend() and alloc_decode()",
            )
        if not self._can_take(pages):
            return None
        ids = self._free_list.peek(pages)
        slots = as_tensor((ids[:, None] * self.page_size + self._page_offsets).reshape(-1))
        self._free_list.drop(pages)
        return slots

    def alloc_extend(
        self,
        prefix_lens: torch.Tensor,
        prefix_lens_cpu: torch.Tensor,
        seq_lens: torch.Tensor,
        seq_lens_cpu: torch.Tensor,
        last_loc: torch.Tensor,
        extend_num_tokens: int,
        num_new_pages: int | None = None,
    ) -> torch.Tensor | None:
        """Slots for tokens `prefix_lens[i]` to `seq_lens[i]` of every request of a prefill batch.

        `prefix_lens`, `seq_lens`, `last_loc` [B] are on the device, the `*_cpu` ones are the same values on
        the CPU. `last_loc[i]` is the slot of the last cached token, -1 without one. `extend_num_tokens` is
        the sum of `seq_lens - prefix_lens`; `num_new_pages` may be given when the caller has counted already.

        Returns int64 [extend_num_tokens], request after request, or None when the pages are not free, with
        nothing changed.
        """
        if self.debug_mode:
            self._check_extend(prefix_lens_cpu, seq_lens_cpu, last_loc, extend_num_tokens)
        if num_new_pages is None:
            num_new_pages = count_extend_pages(prefix_lens_cpu.numpy(), seq_lens_cpu.numpy(), self.page_size)
        if not self._can_take(num_new_pages):
            return None
        pages = self._free_list.peek(num_new_pages)
        if self._numpy_extend:
            slots = torch.from_numpy(
                extend_slots_on_host(
                    prefix_lens_cpu.numpy(),
                    seq_lens_cpu.numpy(),
                    last_loc.numpy(),
                    pages,
                    extend_num_tokens,
                    self.page_size,
                )
            )
        else:
            slots = torch.empty(extend_num_tokens, dtype=torch.int64, device=self._torch_device)
            self._extend_kernel(prefix_lens, seq_lens, last_loc, as_tensor(pages), slots)
        self._free_list.drop(num_new_pages)
        return slots

    def alloc_decode(
        self, seq_lens: torch.Tensor, seq_lens_cpu: torch.Tensor, last_loc: torch.Tensor
    ) -> torch.Tensor | None:
        """One slot for every request of a decode batch; `seq_lens` [B] count the token to come.

        `last_loc[i]` is the slot of the token before it. Returns int64 [B], or None when the pages are not
        free, with nothing changed.
        """
        if self.debug_mode:
            self._check_last_loc(seq_lens_cpu - 1, last_loc)
        if self._numpy_decode:
            return self._alloc_decode_on_host(seq_lens_cpu.numpy(), last_loc.numpy())
        num_new_pages = count_decode_pages(seq_lens_cpu.numpy(), self.page_size)
        if not self._can_take(num_new_pages):
            return None
        slots = torch.empty(seq_lens.numel(), dtype=torch.int64, device=self._torch_device)
        self._decode_kernel(seq_lens, last_loc, as_tensor(self._free_list.peek(num_new_pages)), slots)
        self._free_list.drop(num_new_pages)
        return slots

    def _alloc_decode_on_host(self, seq_lens: IntArray, last_loc: IntArray) -> torch.Tensor | None:
        starts_page = (seq_lens - 1) % self.page_size == 0
        num_new_pages = int(np.count_nonzero(starts_page))
        if not self._can_take(num_new_pages):
            return None
        slots = last_loc + np.int64(1)
        if num_new_pages:
            slots[starts_page] = self._free_list.peek(num_new_pages) * self.page_size
            self._free_list.drop(num_new_pages)
        return torch.from_numpy(slots)

    def free(self, free_index: torch.Tensor) -> None:
        """Give slots back in any order; each page they touch is freed once, whole."""
        if free_index.numel() == 0:
            return
        if self.free_group is not None:
            self.free_group.append(free_index.clone())
            return
        slots = as_ids(free_index, self._free_list.ids)
        if self._free_list.on_host:
            self._give_back(pages_of_slots_on_host(slots, self.page_size))
        else:
            self._give_back(torch.unique(slots // self.page_size))

    def free_segment(self, free_index: torch.Tensor, *, start_pos: int) -> None:
        if self.free_group is None and self._free_list.on_host and start_pos % self.page_size == 0:
            # The same in numpy: the scheduler calls this method the most.
            self._give_back(free_index.numpy()[:: self.page_size] // self.page_size)
        else:
            super().free_segment(free_index, start_pos=start_pos)

    def _extend_kernel(
        self,
        prefix_lens: torch.Tensor,
        seq_lens: torch.Tensor,
        last_loc: torch.Tensor,
        free_pages: torch.Tensor,
        out_indices: torch.Tensor,
    ) -> None:
        """Fill `out_indices`, int64 [sum(seq_lens - prefix_lens)], as `alloc_extend` describes.

        `prefix_lens`, `seq_lens`, `last_loc` are [B], int64 or int32. `free_pages` int64 holds exactly the
        new pages of this batch, to be used in order: request 0 first. It is a view: do not write to it or
        keep it. All tensors are on the allocator's device; raising leaves the allocator unchanged.
        """
        extend_slots_on_device(prefix_lens, seq_lens, last_loc, free_pages, out_indices, self.page_size)

    def _decode_kernel(
        self,
        seq_lens: torch.Tensor,
        last_loc: torch.Tensor,
        free_pages: torch.Tensor,
        out_indices: torch.Tensor,
    ) -> None:
        """Fill `out_indices`, int64 [B], as `alloc_decode` describes; the arguments are as in
        `_extend_kernel`.

        Request i takes the next page of `free_pages` when `seq_lens[i] - 1` is a multiple of the page size.
        """
        decode_slots_on_device(seq_lens, last_loc, free_pages, out_indices, self.page_size)

    def _check_extend(
        self,
        prefix_lens_cpu: torch.Tensor,
        seq_lens_cpu: torch.Tensor,
        last_loc: torch.Tensor,
        extend_num_tokens: int,
    ) -> None:
        total = int((seq_lens_cpu - prefix_lens_cpu).sum())
        if bool((seq_lens_cpu < prefix_lens_cpu).any()) or total != extend_num_tokens:
            raise PlatformError(
                f"alloc_extend() of {extend_num_tokens} tokens does not match its lengths",
                why=f"seq_lens - prefix_lens is {(seq_lens_cpu - prefix_lens_cpu).tolist()}, in all {total}",
            )
        self._check_last_loc(prefix_lens_cpu, last_loc)

    def _check_last_loc(self, cached_lens: torch.Tensor, last_loc: torch.Tensor) -> None:
        wrong = (last_loc.cpu() + 1) % self.page_size != cached_lens % self.page_size
        if bool(wrong.any()):
            at = int(wrong.nonzero()[0])
            cached, last = int(cached_lens[at]), int(last_loc[at])
            raise PlatformError(
                f"request {at} has {cached} cached tokens, but its last slot is {last}",
                why=f"token and slot must stand at the same place in their page of {self.page_size}",
                fix="pass the slot of the last cached token, or -1 when there is none",
            )
