"""Allocators, third set: numbers that grow, what a group, a backup or a resize remembers, large batches."""

from __future__ import annotations

from broken import Table, end

allocators = Table("allocators 3", "memory", "allocator.py")

FREE_AT_ONCE = "        self.free(free_index)\n"
GROUP = "            self.free(torch.cat(slots))\n"
GIVE_BACK = (
    "        self._give_back_pages(sorted({slot // self.page_size for slot in free_index.tolist()}))\n"
)
TO_TENSOR = "        return torch.tensor(values, dtype=torch.int64, device=self.device)\n"
AVAILABLE = "        return len(self._free) * self.page_size\n"
FREE_LIST = "        self._free = list(range(1, self.num_pages + 1))\n"
SORT = "            self._free.sort()\n"
BACKUP = "        return list(self._free), set(self._lent)\n"
RESTORE = "        self._free, self._lent = list(free), set(lent)\n"
GROW = "        return self._grow(prefix_lens_cpu.tolist(), seq_lens_cpu.tolist(), last_loc.tolist())\n"
AFTER = "        after = seq_lens_cpu.tolist()\n"
TAKE = "        pages, self._free = self._free[:count], self._free[count:]\n"

allocators(
    "SegmentsDoNotWait",
    "a segment that is freed inside a group is free at once",
    FREE_AT_ONCE,
    GIVE_BACK,
)
allocators(
    "GroupOf64Frees",
    "a group holds 64 frees, and forgets what comes after",
    GROUP,
    "            self.free(torch.cat(slots[:64]))\n",
)
allocators(
    "PagesOfAGroupOnce",
    "a group that frees slots and page ids frees the slots only",
    "        for ids in pages:\n",
    "        for ids in pages if not slots else []:\n",
)
allocators(
    "BackupSharesTheLent",
    "what is freed after a backup stays forgotten among the lent pages",
    BACKUP,
    "        return list(self._free), self._lent\n",
    RESTORE,
    "        self._free, self._lent = list(free), lent\n",
)
allocators(
    "CountsWhatAGroupHolds",
    "slots in an open group count as available",
    AVAILABLE,
    AVAILABLE.rstrip("\n")
    + " + sum(len(one) for one in self.free_group or ()) // self.page_size * self.page_size\n",
)
allocators(
    "NeighboursAreOnePage",
    "slots of a page that do not stand together free their page twice",
    GIVE_BACK,
    "        import itertools\n\n"
    "        pages = [page for page, _ in itertools.groupby(slot // self.page_size for slot in free_index.tolist())]\n"
    "        if not self._lent.issuperset(pages):\n"
    "            self._give_back_pages(pages)\n"
    "        self._lent.difference_update(pages)\n"
    "        self._free = pages + self._free\n",
)
allocators(
    "PagesIn16Bits",
    "page numbers are kept in 16 bits: page 32,768 is a negative slot",
    "                    slot = pages.pop(0) * self.page_size\n",
    "                    slot = ((pages.pop(0) + 32768) % 65536 - 32768) * self.page_size\n",
)
allocators(
    "PagesIn16BitsUnsigned",
    "page numbers are kept in 16 bits without a sign: page 65,536 is the padding page",
    "        return self._tensor([page * self.page_size + at for page in pages for at in range(self.page_size)])\n",
    "        pages = [page & 0xFFFF for page in pages]\n"
    "        return self._tensor([page * self.page_size + at for page in pages for at in range(self.page_size)])\n",
)
allocators(
    "LengthsIn16Bits",
    "lengths are kept in 16 bits: a request that reaches 65,536 tokens has none",
    GROW,
    "        before = [n & 0xFFFF for n in prefix_lens_cpu.tolist()]\n"
    "        return self._grow(before, [n & 0xFFFF for n in seq_lens_cpu.tolist()], last_loc.tolist())\n",
)
allocators(
    "SlotsInFloat",
    "slots are computed in float32: past 16,777,216 they are rounded",
    TO_TENSOR,
    "        return torch.tensor(values, dtype=torch.float32, device=self.device).long()\n",
)
allocators(
    "PrefixFullPageGoesOn",
    "a prefix that ends with its page goes on into the next page of the pool, if that is free",
    "                if token % self.page_size == 0:\n",
    "                if token % self.page_size == 0 and token == start and slot + 1 in _starts(pages, self.page_size):\n"
    "                    slot = slot + 1\n"
    "                elif token % self.page_size == 0:\n",
    end(
        "allocator.py",
        "def _starts(pages: list[int], size: int) -> set[int]:\n    return {page * size for page in pages}\n",
    ),
)
allocators(
    "OldNumberOfPages",
    "after a resize it lends as many pages as when it was built",
    FREE_LIST,
    "        self._built = self.__dict__.get('_built', self.num_pages)\n"
    "        self._free = list(range(1, self._built + 1))\n",
)
allocators(
    "GivenPagesAreNotCounted",
    "where the caller has counted the new pages, one more is taken and lost",
    GROW,
    "        slots = self._grow(prefix_lens_cpu.tolist(), seq_lens_cpu.tolist(), last_loc.tolist())\n"
    "        if slots is not None and num_new_pages and self._free:\n"
    "            self._free.pop()\n"
    "        return slots\n",
)
allocators(
    "LargeFreesAreNotSorted",
    "with need_sort, more than 512 pages that come back together are not sorted in",
    SORT,
    "            if len(pages) <= 512:\n                self._free.sort()\n",
)
allocators(
    "FailedExtendKeepsPages",
    "an extend of more than 32 requests that does not fit keeps the pages of the first of them",
    "        if pages is None:\n            return None\n        slots = []\n",
    "        if pages is None:\n"
    "            if len(before) > 32:\n"
    "                self._take(len(self._free) // 2)\n"
    "            return None\n"
    "        slots = []\n",
)
allocators(
    "LastLocOfTheBatchBefore",
    "decode takes the last slots of the step before while the batch keeps its size and lengths go up by one",
    AFTER,
    AFTER
    + "        kept = self.__dict__.get('_step')\n"
    + "        if kept is not None and [n + 1 for n in kept[0]] == after and all(n % self.page_size != 1 for n in after):\n"
    + "            last_loc = kept[1]\n"
    + "        self._step = (after, last_loc + 1)\n",
)
allocators(
    "FreePagesAreShared",
    "get_all_free_pages answers a tensor that later frees write into",
    "        return self.free_pages\n",
    "        kept = self.__dict__.setdefault('_kept', torch.zeros(self.num_pages, dtype=torch.int64))\n"
    "        kept[: len(self._free)] = self.free_pages\n"
    "        return kept[: len(self._free)]\n",
)
