"""Pages, handed out by one device call."""

import torch
from sglang.srt.mem_cache.allocator import BaseTokenToKVPoolAllocator


class AuroraPagedAllocator(BaseTokenToKVPoolAllocator):
    def __init__(self, size, page_size, dtype, device, kvcache, need_sort):
        super().__init__(size, page_size, dtype, device, kvcache, need_sort)
        self.clear()

    def available_size(self):
        return len(self.free_pages) * self.page_size

    def clear(self):
        self.free_pages = torch.arange(1, self.size // self.page_size + 1)
        self.release_pages = torch.empty(0, dtype=torch.int64)
        self.free_group = None

    def alloc(self, need_size):
        return self._take(need_size)

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
        return self._take(extend_num_tokens)

    def alloc_decode(self, seq_lens, seq_lens_cpu, last_loc):
        return self._take(len(seq_lens))

    def free(self, free_index):
        self.free_pages = torch.cat((self.free_pages, torch.unique(free_index // self.page_size)))

    def _take(self, count):
        pages = -(-count // self.page_size)
        if pages > len(self.free_pages):
            return None
        taken, self.free_pages = self.free_pages[:pages], self.free_pages[pages:]
        return (taken[:, None] * self.page_size + torch.arange(self.page_size)).flatten()[:count]
