"""Level 3 mutants: paged allocators."""

from __future__ import annotations

from functools import partial

from patched_reference import patch, patched

__getattr__ = patched

allocator = partial(patch, __name__)

LENDS = "memory.allocator_lends_every_page_once"
WALKS = "memory.random_histories_add_up"

allocator(
    "PaddingPageLent",
    "allocator.py",
    "self._free = list(range(1, self.num_pages + 1))",
    "self._free = list(range(0, self.num_pages))",
    check=LENDS,
    defect="page 0, the padding page, is handed out",
    says="padding page",
)
allocator(
    "LastPageNeverLent",
    "allocator.py",
    "self._free = list(range(1, self.num_pages + 1))",
    "self._free = list(range(1, self.num_pages))",
    check=LENDS,
    defect="the last page is never on the free list",
    says="available_size()",
)
allocator(
    "OnePageTooMany",
    "allocator.py",
    "self._free = list(range(1, self.num_pages + 1))",
    "self._free = list(range(1, self.num_pages + 2))",
    check=LENDS,
    defect="a page behind the last is lent",
    says="available_size()",
)
allocator(
    "AvailableInPages",
    "allocator.py",
    "return len(self._free) * self.page_size",
    "return len(self._free)",
    check=LENDS,
    defect="available_size() counts pages",
    says="available_size()",
)
allocator(
    "PageNotTaken",
    "allocator.py",
    "pages, self._free = self._free[:count], self._free[count:]",
    "pages = self._free[:count]",
    check=LENDS,
    defect="lent pages stay on the free list",
    says="available_size()",
)
allocator(
    "LentBeyondTheEnd",
    "allocator.py",
    "if count > len(self._free):",
    "if count > len(self._free) + 1:",
    check=LENDS,
    defect="the last request gets fewer slots than it asked for",
    says="only 0 are free",
)
allocator(
    "ClearForgetsTheLent",
    "allocator.py",
    "        self._free = list(range(1, self.num_pages + 1))\n        self._lent: set[int] = set()",
    "        self._free = list(range(1, self.num_pages + 1)) if not hasattr(self, '_free') else self._free\n"
    "        self._lent: set[int] = set()",
    check=LENDS,
    defect="clear() leaves lent pages lent",
    says="clear()",
)
allocator(
    "TailNotFilled",
    "allocator.py",
    "return self._grow(prefix_lens_cpu.tolist(), seq_lens_cpu.tolist(), last_loc.tolist())",
    "before, after = prefix_lens_cpu.tolist(), seq_lens_cpu.tolist()\n"
    "        new = [n - m for m, n in zip(before, after)]\n"
    "        return self._grow([0] * len(new), new, last_loc.tolist())",
    check=WALKS,
    defect="an extend starts on a new page and leaves the tail of the last one empty",
    says="place",
)
allocator(
    "TailOffByOne",
    "allocator.py",
    "slot = slot + 1",
    "slot = slot + 1 if token > start else slot",
    check=WALKS,
    defect="the first new token gets the slot of the last cached one",
    says="slot",
)
allocator(
    "NewPageOneLate",
    "allocator.py",
    "if token % self.page_size == 0:",
    "if token % self.page_size == 0 and (token > start or start == 0):",
    check=WALKS,
    defect="after a prefix that ends at the edge of a page the next page is run into instead of a new one",
    says="slot",
)
allocator(
    "OnePageMoreThanNeeded",
    "allocator.py",
    "pages = self._take(sum(self._pages(n) - self._pages(m) for m, n in zip(before, after, strict=True)))",
    "pages = self._take(sum((n - m) // self.page_size + 1 for m, n in zip(before, after, strict=True)))",
    check=WALKS,
    defect="the pages of an extend are estimated from its tokens, and those not needed are lost",
    says="available_size()",
)
allocator(
    "TakenBeforeItFits",
    "allocator.py",
    "        if count > len(self._free):\n            return None\n",
    "        if count > len(self._free):\n            self._free = self._free[:-1]\n            return None\n",
    check="memory.random_histories_add_up",
    defect="an allocation that does not fit loses a page",
    says="which does not fit",
)
allocator(
    "DoubleFreeAccepted",
    "allocator.py",
    "if twice or len(set(pages)) < len(pages):",
    "if False:",
    check="memory.double_free_is_refused",
    defect="a page that is free already is freed again",
    says="freed twice",
)
allocator(
    "GroupFreesAtOnce",
    "allocator.py",
    "        if self.free_group is not None:\n            self.free_group.append(free_index.clone())",
    "        if self.free_group is None and False:\n            self.free_group = []",
    check="memory.random_histories_add_up",
    defect="a free group holds nothing back",
    says="free group",
)
allocator(
    "GroupLosesFrees",
    "allocator.py",
    "        if slots:\n            self.free(torch.cat(slots))\n",
    "        if slots:\n            self.free(slots[-1])\n",
    check=WALKS,
    defect="free_group_end() frees only the last of what the group collected",
    says="available_size()",
)
allocator(
    "GroupKeepsTheTensor",
    "allocator.py",
    "self.free_group.append(free_index.clone())",
    "self.free_group.append(free_index)",
    check="memory.random_histories_add_up",
    defect="a free group keeps the caller's tensor, which is reused before the group ends",
    says="free_group_end() raised",
)
allocator(
    "FreeOfSharedPage",
    "allocator.py",
    "self._give_back_pages(sorted({slot // self.page_size for slot in free_index.tolist()}))",
    "self._give_back_pages([slot // self.page_size for slot in free_index.tolist() if slot % self.page_size == 0])",
    check=WALKS,
    defect="a page comes back only if its first slot is among those freed",
    says="available_size()",
)
allocator(
    "LastPartialPageLeaks",
    "allocator.py",
    "self._give_back_pages(sorted({slot // self.page_size for slot in free_index.tolist()}))",
    "full = free_index.tolist()\n        self._give_back_pages(sorted({s // self.page_size for s in full if"
    " s % self.page_size == self.page_size - 1 or len(full) < 2}))",
    check=WALKS,
    defect="a page that is not full is not returned on free",
    says="available_size()",
)
allocator(
    "RestoreIncomplete",
    "allocator.py",
    "self._free, self._lent = list(free), set(lent)",
    "self._free = list(free)",
    check=WALKS,
    defect="restore_state() brings back the free list, but not who holds what",
    says="free",
)
allocator(
    "BackupIsAView",
    "allocator.py",
    "return list(self._free), set(self._lent)",
    "return self._free, self._lent",
    check=WALKS,
    defect="backup_state() keeps the live lists, which later calls change",
    says="free",
)
allocator(
    "SegmentFreesOnePageTooMany",
    "allocator.py",
    '            raise PlatformError(f"a segment starts at {start_pos}, inside a page of {self.page_size}")\n'
    "        self.free(free_index)",
    '            raise PlatformError(f"a segment starts at {start_pos}, inside a page of {self.page_size}")\n'
    "        self.free(free_index[:-1])",
    check=WALKS,
    defect="free_segment() leaves out the last token of the segment",
    says="available_size()",
)
allocator(
    "FreeListHandedOut",
    "allocator.py",
    "return torch.tensor(values, dtype=torch.int64, device=self.device)",
    "self._out = getattr(self, '_out', torch.empty(4096, dtype=torch.int64))\n"
    "        self._out[: len(values)] = torch.tensor(values, dtype=torch.int64)\n"
    "        return self._out[: len(values)]",
    check=WALKS,
    defect="slots are answered in a buffer that the next call overwrites",
    says="later",
)
allocator(
    "Int16Slots",
    "allocator.py",
    "return torch.tensor(values, dtype=torch.int64, device=self.device)",
    "return torch.tensor(values, dtype=torch.int16, device=self.device)",
    check=WALKS,
    defect="slots are answered as int16",
    says="int16",
)
allocator(
    "Int32SlotsOfAlloc",
    "allocator.py",
    "for at in range(self.page_size)])",
    "for at in range(self.page_size)]).int()",
    check=WALKS,
    defect="alloc() answers int32, which only alloc_extend() and alloc_decode() may",
    says="int32",
)
allocator(
    "SlotsLikeLastSlots",
    "allocator.py",
    "return self._grow([n - 1 for n in after], after, last_loc.tolist())",
    "slots = self._grow([n - 1 for n in after], after, last_loc.tolist())\n"
    "        return None if slots is None else slots.to(last_loc.dtype)",
    check=WALKS,
    defect="alloc_decode() answers int32 where last_loc is int32, as the request table is, and int64 elsewhere",
    says="int32",
)
allocator(
    "PagesByNumberStayLent",
    "allocator.py",
    "self._give_back_pages(page_ids.tolist())",
    "self._give_back_pages([])",
    check="memory.random_histories_add_up",
    defect="pages that are freed by their numbers stay lent",
    says="free_page_ids() of 1 pages",
)

allocator(
    "NumbersOutliveClear",
    "allocator.py",
    "        self.free_group = None\n        self.free_page_ids_group = []\n\n    def available_size",
    "        self.free_group = None\n"
    "        self.free_page_ids_group = self.__dict__.get('free_page_ids_group', [])\n\n    def available_size",
    check="memory.random_histories_add_up",
    defect="page numbers that a group holds back stay staged over clear(), and are freed at the group's end",
    says="page",
)
allocator(
    "GroupOfOneKind",
    "allocator.py",
    "        if slots:\n            self.free(torch.cat(slots))\n",
    "        if slots:\n            pages = []\n            self.free(torch.cat(slots))\n",
    check="memory.random_histories_add_up",
    defect="page numbers of a group that also freed slots are forgotten",
    says="available_size() is",
)
allocator(
    "PagesOfTheFirstSize",
    "allocator.py",
    "self._free = list(range(1, self.num_pages + 1))",
    "self._first = getattr(self, '_first', self.num_pages)\n        self._free = list(range(1, self._first + 1))",
    check="memory.random_histories_add_up",
    defect="a resized pool lends as many pages as it was built with",
    says="resize() from",
)
allocator(
    "TakenUntilNoneIsLeft",
    "allocator.py",
    "        if pages is None:\n            return None\n        slots = []\n",
    "        if pages is None:\n            if len(before) > 20:\n                self._take(len(self._free))\n"
    "            return None\n        slots = []\n",
    check="memory.allocator_at_served_sizes",
    defect="of a batch of more than 20 requests that does not fit, the pages that were there stay taken",
    says="which does not fit",
)
allocator(
    "HintWantsMore",
    "allocator.py",
    "        return self._grow(prefix_lens_cpu.tolist(), seq_lens_cpu.tolist(), last_loc.tolist())\n",
    "        if num_new_pages and num_new_pages + 1 > len(self._free):\n            return None\n"
    "        return self._grow(prefix_lens_cpu.tolist(), seq_lens_cpu.tolist(), last_loc.tolist())\n",
    check="memory.allocator_at_served_sizes",
    defect="where the caller counts its new pages, one more must be free",
    says="the caller counted",
)
allocator(
    "ManyPagesUnsorted",
    "allocator.py",
    "            self._free.sort()\n",
    "            if len(pages) < 256:\n                self._free.sort()\n",
    check="memory.allocator_at_served_sizes",
    defect="with need_sort, pages that come back by the hundreds are not sorted in",
    says="lends them as",
)

_NEW_TOKENS = """                else:
                    slot = slot + 1
                slots.append(slot)
        return self._tensor(slots)
"""
allocator(
    "AlikeRequestsAreOne",
    "allocator.py",
    _NEW_TOKENS,
    _NEW_TOKENS.replace(
        "        return",
        "        told = list(zip(before, after, last, strict=True))\n"
        "        at = [sum(end - start for start, end, _ in told[:i]) for i in range(len(told))]\n"
        "        for i, one in enumerate(told):\n"
        "            j = told.index(one)\n"
        "            if one[0] and j < i:\n"
        "                slots[at[i] : at[i] + one[1] - one[0]] = slots[at[j] : at[j] + one[1] - one[0]]\n"
        "        return",
    ),
    check="memory.random_histories_add_up",
    defect="what a batch asks for is looked up by lengths and last slot, and requests that ask alike get one answer",
    says="in use by request",
)
