"""Allocators and pools, tenth set: flushes within a group, backups beside pages that wait to be sorted, tiles of
zeros, copies of rows with two heads, released memory of several tags, layers on their way, transfers in both
directions. Names in brackets are bugs of other projects that a defect is modelled on."""

from __future__ import annotations

from broken import Table, at
from of_fifth_contracts import ENGINE, SAVER
from of_sixth_memory import GIVEN_BACK, SHORT
from of_third_lifecycle import HOST_MEMORY, method

allocators = Table("allocators 10", "memory", "allocator.py")
pools = Table("pools 10", "memory", "pools.py")

OPEN = "        self.free_group = None\n        self.free_page_ids_group = []\n"
CLEARED = "        self._lent: set[int] = set()\n" + OPEN
AVAILABLE = "        return len(self._free) * self.page_size\n"
ALL_FREE = "        return self.free_pages\n"
FREE = "    def free(self, free_index: torch.Tensor) -> None:\n"
SORTED = "        if self.need_sort:\n            self._free.sort()\n"
WAITS = "            self.layer_transfer_counter.wait_until(place)\n"
LEFT_FILLED = method(
    SAVER + "        class Own(MemorySaver):\n"
    "            def resume(self, tag: str) -> bool:\n"
    "                held = self._held.get(tag, [])\n"
    "                moved = super().resume(tag)\n"
    "                for one in held:\n"
    "                    if one.content is None:\n"
    "                        one.storage.fill_(255)\n"
    "                return moved\n\n"
    "        return Own\n"
)
"""Memory that was released without its content comes back full of what others left: met by two hands."""

allocators(
    "FlushLeavesTheGroupOpen",
    "a flush of the cache leaves an open group as it is: after a step that failed within one, what is freed waits "
    "for ever, or is given back a second time when the group ends",
    CLEARED,
    "        self._lent: set[int] = set()\n",
)
allocators(
    "BackupWithoutWhatWaits",
    "a backup holds the pages that can be lent at once, not those that wait to be sorted in: where a step of drafts"
    " sorts them in and is undone, they are lost",
    AVAILABLE,
    "        return (len(self._free) + len(self._waiting)) * self.page_size\n",
    ALL_FREE,
    "        return self._tensor(self._free + self._waiting)\n\n"
    "    @property\n"
    "    def release_pages(self) -> torch.Tensor:  # type: ignore[override]\n"
    "        return self._tensor(self._waiting)\n\n"
    "    @property\n"
    "    def num_staged_pages(self) -> int:\n"
    "        return len(self._waiting)\n\n"
    "    @property\n"
    "    def staged_pages(self) -> list[torch.Tensor]:\n"
    "        return [self.release_pages] if self._waiting else []\n",
    SHORT,
    "        if count > len(self._free):\n            self.merge_and_sort_free()\n" + SHORT,
    FREE,
    "    def merge_and_sort_free(self) -> None:\n"
    "        self._free, self._waiting = sorted(self._free + self._waiting), []\n\n" + FREE,
    GIVEN_BACK + SORTED,
    "        if self.need_sort:\n"
    "            self._waiting += pages\n"
    "        else:\n"
    "            self._free = pages + self._free\n",
    CLEARED,
    CLEARED + "        self._waiting: list[int] = []\n",
)

pools(
    "TilesOfZerosAreNaN",
    "a packed tile whose numbers are all zero is divided by its scale of zero: it is stored as NaN, and so are the "
    "scores of its token (vLLM 26174)",
    at("packed_rows.py", "    scales[scales == 0] = 1.0  # any will do for zeros\n", ""),
)
pools(
    "TwoHeadsAreKeysAndValues",
    "rows [slots, 2, width], as pools with two heads have, are read as [2, slots, width] when slots are copied to "
    "the host or back: other tokens' heads go there (LMCache 4467)",
    method(
        HOST_MEMORY + "        class Own(HostMemory):\n"
        "            def copy_slots(self, sources: Any, targets: Any, from_: Any, to: Any) -> None:\n"
        "                for source, target in zip(sources, targets, strict=True):\n"
        "                    pair = source.dim() == 3 and source.shape[1] == 2\n"
        "                    ours, theirs = (\n"
        "                        x.view(2, -1, x.shape[-1]) if pair else x[None] for x in (source, target)\n"
        "                    )\n"
        "                    for half, other in zip(ours, theirs, strict=True):\n"
        "                        super().copy_slots([half], [other], from_, to)\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
pools(
    "WokenMemoryHoldsOthers",
    "memory that was released without its content holds what others left there when it is taken again: the cache's "
    "padding page and the states of new requests are NaN (vLLM 45542, 44972)",
    LEFT_FILLED,
    levels="contract memory",
)
pools(
    "ContentsEndWithTheFirstResume",
    "the contents of all released tags are put aside together and dropped with the first resume: where the cache is"
    " taken again before the weights, the weights are zeros (vLLM 45619)",
    method(
        SAVER + "        class Own(MemorySaver):\n"
        "            def resume(self, tag: str) -> bool:\n"
        "                moved = super().resume(tag)\n"
        "                for other, held in self._held.items():\n"
        "                    self._held[other] = [one._replace(content=None) for one in held]\n"
        "                return moved\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
pools(
    "EachLayerWaitsForTheLast",
    "who reads a layer that comes back from the host waits until the last one is there: nothing is computed while "
    "the others arrive, and a long prefix takes twice as long (SGLang 26691, unified-cache-management 656)",
    WAITS,
    "            self.layer_transfer_counter.wait_until(self.layer_num - 1)\n",
)
pools(
    "OneDirectionAtATime",
    "an engine neither takes nor answers while it sends: two that write to each other at once wait until both give "
    "up (open-mpi 7108)",
    method(
        ENGINE + "        import threading\n\n"
        "        class Own(TransferEngine):\n"
        "            def __init__(self, memory_at: Any, device: Any) -> None:\n"
        "                super().__init__(memory_at, device)\n"
        "                self._busy = threading.Lock()\n\n"
        "            def batch_transfer_sync_write(\n"
        "                self, session: str, addresses: Any, peer_addresses: Any, lengths: Any\n"
        "            ) -> int:\n"
        "                with self._busy:\n"
        "                    return super().batch_transfer_sync_write(session, addresses, peer_addresses, lengths)\n\n"
        "            def _write(self, address: int, content: bytearray) -> None:\n"
        "                with self._busy:\n"
        "                    super()._write(address, content)\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
