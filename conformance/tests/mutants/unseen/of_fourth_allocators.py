"""Allocators, fourth set: kernels under core's own allocator, copies by the allocator, numbers that others read."""

from __future__ import annotations

from broken import Edit, Table, at, end

allocators = Table("allocators 4", "memory", "allocator.py")

ANSWER = (
    "        from sglang_platform.conformance.reference.allocator import ReferencePagedAllocator\n\n"
    "        return ReferencePagedAllocator\n"
)
OWN = "        from sglang_platform.conformance.reference.allocator import OwnKernels\n\n        return OwnKernels\n"
EXTEND = "    def _extend_kernel(self, prefix_lens, seq_lens, last_loc, free_pages, out_indices):\n"
DECODE = "    def _decode_kernel(self, seq_lens, last_loc, free_pages, out_indices):\n"
EXTENDED = "        super()._extend_kernel(prefix_lens, seq_lens, last_loc, free_pages, out_indices)\n"
DECODED = "        super()._decode_kernel(seq_lens, last_loc, free_pages, out_indices)\n"


def kernels(text: str) -> tuple[Edit, Edit]:
    """Core's allocator, as a vendor takes it who writes its kernels only."""
    return at("platform.py", ANSWER, OWN), end(
        "allocator.py", f"class OwnKernels(PagedTokenToKVPoolAllocator):\n{text}"
    )


allocators(
    "KernelClearsWhatItTook",
    "the decode kernel writes zeros over the free pages that it took: a backup that is restored lends the padding page",
    *kernels(DECODE + DECODED + "        free_pages.zero_()\n"),
)
allocators(
    "KernelClearsWhatAnExtendTook",
    "the extend kernel writes zeros over the free pages that it took: a backup that is restored lends the padding page",
    *kernels(EXTEND + EXTENDED + "        free_pages.zero_()\n"),
)
allocators(
    "TailRunsIntoTheNextRequest",
    "the tail of a request's last page is filled to its end, over the first slots of the next request",
    *kernels(
        EXTEND + EXTENDED + "        begin = 0\n"
        "        lines = zip(prefix_lens.tolist(), seq_lens.tolist(), last_loc.tolist())\n"
        "        for before, after, last in lines:\n"
        "            new, tail = after - before, -before % self.page_size\n"
        "            for i in range(new, min(tail, out_indices.numel() - begin)):\n"
        "                out_indices[begin + i] = last + 1 + i\n"
        "            begin += new\n"
    ),
)
allocators(
    "DecodeKernelKeepsItsPages",
    "the decode kernel keeps the free pages that it was given first, for later steps that need as many",
    *kernels(
        DECODE + "        kept = self.__dict__.setdefault('_kept', {})\n"
        "        pages = kept.setdefault(free_pages.numel(), free_pages)\n"
        "        super()._decode_kernel(seq_lens, last_loc, pages, out_indices)\n"
    ),
)
allocators(
    "DecodeKernelOfOneBlock",
    "a block of the decode kernel counts the new pages of its 256 requests, from the first free page each",
    *kernels(
        DECODE + DECODED + "        news = (seq_lens.long() - 1) % self.page_size == 0\n"
        "        for begin in range(256, news.numel(), 256):\n"
        "            own = news[begin : begin + 256]\n"
        "            places = own.nonzero().flatten()\n"
        "            out_indices[begin + places] = free_pages[: places.numel()] * self.page_size\n"
    ),
)
allocators(
    "CopiesWholePages",
    "a request that leaves for host memory and comes back through the allocator loses the slots of its last page",
    "    def backup_state(self) -> Any:\n",
    "    def get_cpu_copy(self, indices: Any, mamba_indices: Any = None, req_pool_index: Any = None) -> Any:\n"
    "        whole = indices.numel() // self.page_size * self.page_size\n"
    "        return super().get_cpu_copy(indices[:whole], mamba_indices, req_pool_index)\n\n"
    "    def load_cpu_copy(\n"
    "        self, kv_cache_cpu: Any, indices: Any, mamba_indices: Any = None, req_pool_index: Any = None\n"
    "    ) -> None:\n"
    "        whole = indices.numel() // self.page_size * self.page_size\n"
    "        super().load_cpu_copy(kv_cache_cpu, indices[:whole], mamba_indices, req_pool_index)\n\n"
    "    def backup_state(self) -> Any:\n",
)
allocators(
    "SizeWithThePaddingPage",
    "its size counts the padding page: the host takes it for slots that it may lend",
    "        super().__init__(size, page_size, dtype, device, kvcache, need_sort)\n        self.clear()\n",
    "        super().__init__(size, page_size, dtype, device, kvcache, need_sort)\n"
    "        self.clear()\n"
    "        self.size = size + page_size\n",
)
allocators(
    "FreedWhileTheyAreRead",
    "slots of an open group are lent where nothing else is left",
    "        if count > len(self._free):\n            return None\n",
    "        if count > len(self._free) and self.free_group:\n"
    "            held, self.free_group = self.free_group, None\n"
    "            self.free(torch.cat(held))\n"
    "            self.free_group = []\n"
    "        if count > len(self._free):\n            return None\n",
)
allocators(
    "HintedExtendsSkipTheTail",
    "where the caller counted the new pages a request goes on in a new page, and the tail of its last one is lost",
    "        return self._grow(prefix_lens_cpu.tolist(), seq_lens_cpu.tolist(), last_loc.tolist())\n",
    "        before, after = prefix_lens_cpu.tolist(), seq_lens_cpu.tolist()\n"
    "        if num_new_pages is not None and num_new_pages >= len(before) > 4:\n"
    "            whole = [self._pages(n) * self.page_size for n in before]\n"
    "            slots = self._grow(whole, [w + n - b for w, n, b in zip(whole, after, before)], last_loc.tolist())\n"
    "            return slots\n"
    "        return self._grow(before, after, last_loc.tolist())\n",
)
