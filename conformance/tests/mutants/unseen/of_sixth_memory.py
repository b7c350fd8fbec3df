"""Allocators and pools, sixth set: sizes, orders of calls, requests that begin alike, what comes back from the host. Names
in brackets are bugs of other projects that a defect is modelled on."""

from __future__ import annotations

from broken import Table, at

allocators = Table("allocators 6", "memory", "allocator.py")
pools = Table("pools 6", "memory", "pools.py")

GROWN = "        return self._tensor(slots)\n"
SHORT = "        if count > len(self._free):\n            return None\n"
GIVEN_BACK = "        self._free = pages + self._free\n"
STATE = (
    "        return list(self._free), set(self._lent)\n\n"
    "    def restore_state(self, state: Any) -> None:\n"
    "        free, lent = state\n"
)
GROUP_END = "    def free_group_end(self) -> None:\n"
WRITE = "        buffer[loc.reshape(-1)] = rows.reshape(-1, *buffer.shape[1:])\n"
SIZES = "        return sum(k.nbytes for k in self.k_buffer), sum(v.nbytes for v in self.v_buffer)\n"
COPY = '        return [buffer[indices].to("cpu") for buffer in self._buffers()]\n'
LOAD = "        for buffer, rows in zip(self._buffers(), kv_cache_cpu, strict=True):\n"

allocators(
    "NewTokensOfABatchIn16Bits",
    "the new tokens of a batch are numbered in 16 bits: those past the 65,536th are written over the first",
    GROWN,
    "        wrapped = [0] * len(slots)\n"
    "        for at, slot in enumerate(slots):\n"
    "            wrapped[at & 65535] = slot\n"
    "        return self._tensor(wrapped)\n",
)
allocators(
    "OnePlaceForABackup",
    "there is one place for a backup: a restore brings back the latest, whichever is given",
    STATE,
    "        self._saved = list(self._free), set(self._lent)\n"
    "        return object()\n\n"
    "    def restore_state(self, state: Any) -> None:\n"
    "        free, lent = self._saved\n",
)
allocators(
    "SegmentsAreLookedThroughFirst",
    "segments are looked through before they are freed: of a generator's nothing is left to free",
    GROUP_END,
    "    def free_segments(self, segments: Any) -> None:\n"
    "        if any(start_pos % self.page_size for _, start_pos in segments):\n"
    '            raise PlatformError("a segment starts inside a page")\n'
    "        super().free_segments(segments)\n\n" + GROUP_END,
)
allocators(
    "RingHoldsOneLess",
    "free pages lie in a ring that holds one less than there are: when all have come back, one is lost",
    GIVEN_BACK,
    "        self._free = (pages + self._free)[: max(self.num_pages - 1, 1)]\n",
)
allocators(
    "TwinsShareTheirSlots",
    "requests of a batch with one prefix, as prompts that are sent twice, get the same slots for their new tokens",
    "        for start, end, slot in zip(before, after, last, strict=True):\n",
    "        twins: dict[Any, list[int]] = {}\n"
    "        for start, end, slot in zip(before, after, last, strict=True):\n"
    "            key, own = (start, end, slot), len(slots)\n"
    "            if start and end > start + 1 and key in twins:\n"
    "                slots.extend(twins[key])\n"
    "                continue\n",
    "                slots.append(slot)\n",
    "                slots.append(slot)\n            twins[key] = slots[own:]\n",
)
allocators(
    "NoneIsFreeNoneIsNeeded",
    "where no page is free, a step that goes on in the pages it has is refused too",
    SHORT,
    "        if count > len(self._free) or not self._free:\n            return None\n",
)

pools(
    "PackedRowsLeaveInNominalWidth",
    "of a packed row, what leaves for the host is as wide as its numbers are many: 576 of 656 bytes (SGLang 37534)",
    at(
        "dsa_pool.py",
        "        return [super().get_cpu_copy(indices), keys]\n",
        "        nominal = self.kv_lora_rank + self.qk_rope_head_dim\n"
        "        return [[one[..., :nominal] for one in super().get_cpu_copy(indices)], keys]\n",
    ),
    at(
        "dsa_pool.py",
        "        super().load_cpu_copy(rows, indices)\n",
        "        nominal = self.kv_lora_rank + self.qk_rope_head_dim\n"
        "        for buffer, own in zip(self._buffers(), rows, strict=True):\n"
        "            buffer[indices, :, :nominal] = own.to(buffer.device)\n",
    ),
)
pools(
    "AsManyTokensAsHeads",
    "a store of as many tokens as there are heads is taken for one with the heads in front",
    WRITE,
    "        rows = rows.reshape(-1, *buffer.shape[1:])\n"
    "        if rows.shape[0] == rows.shape[1]:\n"
    "            rows = rows.transpose(0, 1)\n"
    "        buffer[loc.reshape(-1)] = rows\n",
)
pools(
    "SizeOfTheStagesBefore",
    "a later stage of a pipeline states the size of the layers before it as well",
    SIZES,
    "        layers = self.start_layer + self.layer_num\n"
    "        return self.k_buffer[0].nbytes * layers, self.v_buffer[0].nbytes * layers\n",
)
pools(
    "BackAtItsOldSlots",
    "a request that comes back to the slots it had is not loaded, though others had them in between",
    COPY,
    "        self._left = indices.clone()\n" + COPY,
    LOAD,
    "        left = self.__dict__.get('_left')\n"
    "        if left is not None and torch.equal(left, indices):\n"
    "            return\n" + LOAD,
)
pools(
    "LargestOfNoSlots",
    "slots are looked at by their largest: a store of no rows, as an idle rank makes it, raises",
    WRITE,
    "        assert int(loc.max()) < len(buffer)\n" + WRITE,
)
