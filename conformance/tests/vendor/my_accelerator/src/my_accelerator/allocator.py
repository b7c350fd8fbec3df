"""Pages of the KV pool for requests, counted on the host and filled in on the card."""

import torch

from sglang_platform.core import PagedTokenToKVPoolAllocator


class MyAcceleratorAllocator(PagedTokenToKVPoolAllocator):
    def alloc_extend(
        self,
        prefix_lens,
        prefix_lens_cpu,
        seq_lens,
        seq_lens_cpu,
        last_loc,
        extend_num_tokens,
        num_new_pages=None,
    ):
        new = seq_lens_cpu - prefix_lens_cpu
        wanted = int(((new + self.page_size - 1) // self.page_size).sum())
        pages = self._take(wanted)
        if pages is None:
            return None
        slots = torch.empty(extend_num_tokens, dtype=torch.int64, device=self.device)
        self._extend_kernel(prefix_lens, seq_lens, last_loc, pages, slots)
        return slots

    def alloc_decode(self, seq_lens, last_loc):
        starts = (seq_lens - 1) % self.page_size == 0
        pages = self._take(int(starts.sum()))
        if pages is None:
            return None
        slots = (last_loc + 1).to(torch.int64)
        slots[starts] = pages * self.page_size
        return slots

    def _take(self, count):
        """The next `count` free pages, or None where there are not so many."""
        if count * self.page_size > self.available_size():
            return None
        if count > len(self.free_pages):
            self.merge_and_sort_free()
        pages = self.free_pages[:count].clone()
        self.free_pages = self.free_pages[count:]
        return pages
