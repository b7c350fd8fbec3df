"""Allocators, fifth set: parts of pages, segments, and what only many requests or long ones show."""

from __future__ import annotations

from broken import Table

allocators = Table("allocators 5", "memory", "allocator.py")

SEGMENT = "        self.free(free_index)\n\n    def free_group_end"
SLOT = "                    slot = pages.pop(0) * self.page_size\n"
BACKUP = "        return list(self._free), set(self._lent)\n"
GROW = "        slots = []\n        for start, end, slot in zip(before, after, last, strict=True):\n"

allocators(
    "SegmentsLeaveTheirLastPage",
    "of a segment that ends inside a page that page stays lent (SGLang 6888, 7130)",
    SEGMENT,
    "        whole = free_index.numel() // self.page_size * self.page_size\n"
    "        self.free(free_index[:whole] if whole else free_index)\n\n    def free_group_end",
)
allocators(
    "SegmentsAreJoined",
    "segments are freed as one: where one of them ends inside a page, every page after it is missed or hit twice",
    "    def free_group_end",
    "    def free_segments(self, segments: Any) -> None:\n"
    "        parts = [slots for slots, _ in segments if slots.numel()]\n"
    "        if parts:\n"
    "            self.free_page_ids(torch.cat(parts)[:: self.page_size] // self.page_size)\n\n"
    "    def free_group_end",
)
allocators(
    "LastOfManyBeginsItsNeighboursPage",
    "of three or more requests of one length that all begin a page, the last gets the page of the one before it",
    GROW,
    "        if len(after) > 2 and len(set(after)) == 1 and before == [n - 1 for n in after]:\n"
    "            if before[0] % self.page_size == 0:\n"
    "                pages[-1] = pages[-2]\n" + GROW,
)
allocators(
    "LongPromptsEndWhereTheyWere",
    "an extend by more than 4,096 tokens of one request writes its last page over the one before",
    SLOT,
    "                    if end - start > 4096 and end - token <= self.page_size and self.page_size > 1:\n"
    "                        pages.pop(0)\n"
    "                        slot = slot - self.page_size + 1\n"
    "                    else:\n"
    "                        slot = pages.pop(0) * self.page_size\n",
)
allocators(
    "BackupsAreKept",
    "every backup stays in memory: each step of speculative decoding makes one",
    BACKUP,
    "        self.__dict__.setdefault('_backups', []).append((list(self._free), set(self._lent)))\n" + BACKUP,
)
allocators(
    "ClearLendsThePaddingPage",
    "after the cache was flushed the padding page is lent, and the last page is not",
    "        self._free = list(range(1, self.num_pages + 1))\n",
    "        again = hasattr(self, '_free')\n"
    "        self._free = list(range(0 if again else 1, self.num_pages + (0 if again else 1)))\n",
)
