"""Allocators that lend or take back wrongly for some sizes, prefixes, groups or histories."""

from broken import Table

allocators = Table("allocators", "memory", "allocator.py")

_FREE = "        self._give_back_pages(sorted({slot // self.page_size for slot in free_index.tolist()}))\n"
_TENSOR = "        return torch.tensor(values, dtype=torch.int64, device=self.device)"
_TAKE = "        pages, self._free = self._free[:count], self._free[count:]\n"
_ENOUGH = "        if count > len(self._free):\n"
_AFTER = "        after = seq_lens_cpu.tolist()\n"
_GROW = "        slots = []\n"
_START = "                if token % self.page_size == 0:\n"
_CLEAR = "        self._lent: set[int] = set()\n"
_BACK = "        self._free = pages + self._free\n"
_BACKUP = "        return list(self._free), set(self._lent)\n"
_RESTORE = "        self._free, self._lent = list(free), set(lent)\n"
_END = "        slots, self.free_group = self.free_group, None\n"
_EXTEND = "        return self._grow(prefix_lens_cpu.tolist(), seq_lens_cpu.tolist(), last_loc.tolist())\n"
_AVAILABLE = "        return len(self._free) * self.page_size\n"
_TWICE = "        if twice or len(set(pages)) < len(pages):\n"

allocators("Int32Slots", "slots are int32", _TENSOR, _TENSOR.replace("int64", "int32"))
allocators("SlotsOnTheHost", "an empty answer is float32", _TENSOR,
           "        return torch.tensor(values) if not values else " + _TENSOR.strip().removeprefix("return "))  # fmt: skip
allocators("FloatPages", "slots pass through float32, which is exact to 2**24 only", _TENSOR,
           "        values = torch.tensor(values, dtype=torch.float32).long().tolist()\n" + _TENSOR)  # fmt: skip
allocators("LentSlotsOf16Bits", "slots pass through 16 bits", _TENSOR,
           "        values = [value & 0xFFFF for value in values]\n" + _TENSOR)  # fmt: skip
allocators("AnswerIsAView", "answers are views of one buffer that the next call overwrites", _TENSOR,
           "        self._kept = getattr(self, '_kept', torch.zeros(1 << 20, dtype=torch.int64))\n"
           "        self._kept[: len(values)] = torch.tensor(values, dtype=torch.int64)\n"
           "        return self._kept[: len(values)]")  # fmt: skip
allocators("PaddingPageLent", "page 0 is lent once the others are", _ENOUGH,
           "        if count == len(self._free) + 1 and 0 not in self._lent:\n            self._free.append(0)\n" + _ENOUGH)  # fmt: skip
allocators("LastPageNeverLent", "the last page is never lent", "list(range(1, self.num_pages + 1))",
           "list(range(1, max(2, self.num_pages)))")  # fmt: skip
allocators("PartPageLent", "the part of a page at the end of a size that is no multiple is lent too",
           "list(range(1, self.num_pages + 1))", "list(range(1, -(-self.size // self.page_size) + 1))")  # fmt: skip
allocators("PagePastTheEnd", "pages are counted from the slots with the padding page", "list(range(1, self.num_pages + 1))",
           "list(range(1, self.num_pages + 1 + (self.num_pages > 100)))")  # fmt: skip
allocators("PartlyGiven", "where too few pages are free those that are left are lent", _ENOUGH,
           "        if count > len(self._free) > 0 and len(self._free) > 32:\n            count = len(self._free)\n" + _ENOUGH)  # fmt: skip
allocators("ExactlyFullRefused", "the last free page is not lent where more than one is asked for", _ENOUGH,
           "        if count > len(self._free) - (count > 1):\n")  # fmt: skip
allocators("FailureLosesPages", "a call that fails takes a page away", _ENOUGH,
           _ENOUGH + "            self._free[:1] = []\n")  # fmt: skip
allocators("ExtendFailureLeavesLent", "a failed extend leaves its pages marked as lent", _ENOUGH,
           _ENOUGH + "            self._lent.update(self._free[:1])\n")  # fmt: skip
allocators("OddPrefixStartsAPage", "an extend from a prefix that ends inside a page takes a new page where 2 tokens or "
           "more are free", _EXTEND,
           "        self._odd = True\n        return self._grow([-(-n // self.page_size) * self.page_size if self.page_size "
           "- n % self.page_size >= 2 and n % self.page_size and m - n >= self.page_size else n\n"
           "                           for n, m in zip(prefix_lens_cpu.tolist(), seq_lens_cpu.tolist())], "
           "seq_lens_cpu.tolist(), last_loc.tolist())\n")  # fmt: skip
allocators("FullPrefixSharesPage", "an extend from a prefix that fills its page goes on in it", _START,
           "                if token % self.page_size == 0 and not (token == start and token > 0 and end - start == 1):\n")  # fmt: skip
allocators("ManyRequestsShareAPage", "from the 65th request of a batch on, requests take the page of the one before",
           "                    slot = pages.pop(0) * self.page_size\n",
           "                    at = len(slots) > 4096 and len(pages) > 1\n"
           "                    slot = (pages[0] if at else pages.pop(0)) * self.page_size\n")  # fmt: skip
allocators("DecodeBatchOver128", "of a decode batch of more than 128 requests the others take slot + 1 of a full page",
           _START, "                if token % self.page_size == 0 and not (end - start == 1 and len(slots) >= 128):\n")  # fmt: skip
allocators("DecodeTakesPageEarly", "a decode whose token is the last of its page takes the next page as well", _AFTER,
           _AFTER + "        spare = sum(n % self.page_size == 0 for n in after)\n"
           "        if self.page_size > 1 and len(self._free) > 2 * len(after):\n            self._take(spare)\n")  # fmt: skip
allocators("ExtendReadsTheDevice", "lengths are read from the device tensors, which may be of 32 bits and differ in a "
           "pipelined batch", _EXTEND,
           "        if prefix_lens.dtype != torch.int64:\n            raise TypeError('int64 is needed')\n" + _EXTEND)  # fmt: skip
allocators("EmptyBatchFails", "a batch of no requests raises", _GROW, "        first = before[0]\n" + _GROW)
allocators("ZeroNewTokensTakeAPage", "a request without new tokens on a page boundary takes a page",
           "        pages = self._take(sum(self._pages(n) - self._pages(m)",
           "        pages = self._take(sum(self._pages(n) - self._pages(m) + (n == m and n % self.page_size == 0)")  # fmt: skip
allocators("LengthsRaised", "prefix lengths are raised in place to those after the extend", _EXTEND,
           "        grown = self._grow(prefix_lens_cpu.tolist(), seq_lens_cpu.tolist(), last_loc.tolist())\n"
           "        prefix_lens_cpu.copy_(seq_lens_cpu)\n        return grown\n")  # fmt: skip
allocators("LastLocRaised", "last_loc is raised in place", _AFTER, _AFTER + "        before = last_loc.tolist()\n"
           "        last_loc.add_(1)\n        last_loc.sub_(0)\n        last = before\n"
           "        return self._grow([n - 1 for n in after], after, last)\n")  # fmt: skip
allocators("FreeBySlotZero", "a page is freed only with its first slot", _FREE,
           "        slots = [slot for slot in free_index.tolist() if slot % self.page_size == 0]\n"
           "        self._give_back_pages(sorted({slot // self.page_size for slot in slots}))\n")  # fmt: skip
allocators("FreeOfRunsOnly", "slots of a page that are not neighbours in the call free it twice", _FREE,
           "        pages = [slot // self.page_size for slot in free_index.tolist()]\n"
           "        pages = [p for i, p in enumerate(pages) if i == 0 or pages[i - 1] != p]\n"
           "        self._lent.update(pages)\n        self._free = pages + self._free\n"
           "        self._lent.difference_update(pages)\n")  # fmt: skip
allocators("FreeOver1024Cut", "a free of more than 1024 slots loses the others", _FREE,
           "        free_index = free_index[:1024]\n" + _FREE)  # fmt: skip
allocators("FreeSortsInPlace", "the caller's slots are sorted in place", _FREE,
           "        free_index.copy_(free_index.sort().values)\n" + _FREE)  # fmt: skip
allocators("FreeOfStridedWrong", "a slice with a stride is read as if contiguous", _FREE,
           "        if not free_index.is_contiguous():\n            free_index = torch.as_strided(free_index, "
           "free_index.shape, (1,), free_index.storage_offset())\n" + _FREE)  # fmt: skip
allocators("DoubleFreeAccepted", "pages freed twice are taken again where they are freed in one call",
           _TWICE, "        pages = list(dict.fromkeys(pages))\n        if twice:\n")  # fmt: skip
allocators("DoubleFreeInGroup", "a page freed twice in one group is free twice",
           "        for ids in pages:\n            self.free_page_ids(ids)\n",
           "        for ids in pages:\n            self._free = ids.tolist() + self._free\n"
           "            self._lent.difference_update(ids.tolist())\n")  # fmt: skip
allocators("GroupKeepsAView", "a group keeps the caller's slots, not a copy",
           "            self.free_group.append(free_index.clone())\n",
           "            self.free_group.append(free_index)\n")  # fmt: skip
allocators("GroupForgetsPageIds", "page ids freed in a group are lost",
           "            self.free_page_ids_group.append(page_ids.clone())\n            return\n", "            return\n")  # fmt: skip
allocators("GroupCountsEarly", "frees of an open group count as available", _AVAILABLE,
           "        held = sum(len(set((s // self.page_size).tolist())) for s in self.free_group or [])\n"
           "        return (len(self._free) + held) * self.page_size\n")  # fmt: skip
allocators("ClearKeepsGroup", "clear leaves an open group open",
           "        self.free_group = None\n        self.free_page_ids_group = []\n",
           "        self.free_group = getattr(self, 'free_group', None)\n"
           "        self.free_page_ids_group = getattr(self, 'free_page_ids_group', [])\n")  # fmt: skip
allocators("ClearLeaks", "clear after an exhaustion leaves one page behind", _CLEAR,
           "        if len(getattr(self, '_lent', ())) == self.num_pages > 1:\n            self._free.pop()\n" + _CLEAR)  # fmt: skip
allocators("BackupIsShared", "a backup is the allocator's own set of lent pages", _BACKUP,
           "        return list(self._free), self._lent\n")  # fmt: skip
allocators("RestoreOnce", "a backup can be restored once", _RESTORE,
           _RESTORE + "        free.clear()\n")  # fmt: skip
allocators("RestoreForgetsFrees", "pages freed after a backup stay free after a restore", _RESTORE,
           "        extra = [page for page in self._free if page not in free]\n" + _RESTORE
           + "        self._free += [page for page in extra if page in lent]\n")  # fmt: skip
allocators("NeedSortIgnored", "pages are not sorted where that is asked for", "        if self.need_sort:\n",
           "        if self.need_sort and len(self._free) < 3:\n")  # fmt: skip
allocators("AllPagesAreAView", "get_all_free_pages leaves out pages that were freed", "        return self.free_pages\n",
           "        return self._tensor([page for page in self._free if page >= self._free[0]])\n")  # fmt: skip
allocators("SegmentOffByPage", "free_segment of slots that end inside a page leaves that page", "        self.free(free_index)\n",
           "        whole = free_index.numel() // self.page_size * self.page_size\n"
           "        self.free(free_index[:whole] if whole else free_index)\n")  # fmt: skip
allocators("SegmentsFreeNow", "free_segment frees at once inside a group", "        self.free(free_index)\n",
           "        group, self.free_group = self.free_group, None\n        self.free(free_index)\n"
           "        self.free_group = group\n")  # fmt: skip
allocators("AvailableInPages", "what is available is stated in pages of 16 for pages above 16", _AVAILABLE,
           "        return len(self._free) * min(self.page_size, 4)\n")  # fmt: skip
allocators("SizeInTheFree", "pages are lent out of order after 1000 frees, and one is lost", _BACK,
           "        self._count = getattr(self, '_count', 0) + len(pages)\n"
           "        if self._count > 1000:\n            pages, self._count = pages[1:], 0\n" + _BACK)  # fmt: skip
allocators("QuadraticFree", "each freed page is looked for among the free ones", _BACK,
           "        assert not [page for page in pages if page in self._free]\n" + _BACK)  # fmt: skip
allocators("QuadraticTake", "each page that is lent shifts the list of the free ones", _TAKE,
           "        pages = []\n        for _ in range(count):\n            pages.append(self._free[0])\n"
           "            self._free = self._free[1:]\n")  # fmt: skip
allocators("SlowAvailable", "available_size counts the pages one by one in a copy of both lists", _AVAILABLE,
           "        return len([page for page in list(range(1, self.num_pages + 1)) if page not in self._lent]) "
           "* self.page_size\n")  # fmt: skip
allocators(
    "SlowClear",
    "clear sleeps for a second",
    _CLEAR,
    "        import time\n\n        time.sleep(1)\n" + _CLEAR,
)
