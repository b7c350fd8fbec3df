"""Allocators and pools, eighth set: page ids in groups, unequal prompts, whole chunks, beams, rows that take another's scale. Names
in brackets are bugs of other projects that a defect is modelled on."""

from __future__ import annotations

from broken import Table, at
from of_seventh_memory import LOAD, MOVE

allocators = Table("allocators 8", "memory", "allocator.py")
pools = Table("pools 8", "memory", "pools.py")
speed = Table("speed 8", "memory", "pools.py")

PLACE = "        place = self._layer(layer.layer_id if layer_id_override is None else layer_id_override)\n"
KEYS = "        self._write(self.k_buffer[place], loc, as_stored(cache_k, self.dtype, k_scale))\n"
STORE = "        buffer[loc.reshape(-1)] = rows.reshape(-1, *buffer.shape[1:])\n"

allocators(
    "PageIdsOfAGroupAreSlots",
    "in a group the ids of pages wait beside slots, and are taken for slots when it ends: other pages come back",
    "            self.free_page_ids_group.append(page_ids.clone())\n",
    "            self.free_group.append(page_ids.clone())\n",
)
allocators(
    "WhatEverCameBackIsMerged",
    "where pages are sorted and too few are free, all that ever came back is merged in, with pages that were lent again "
    "since",
    "        if count > len(self._free):\n",
    "        if count > len(self._free) and self.need_sort:\n"
    "            self._free = sorted({*self._free, *self.__dict__.get('_came_back', ())})\n"
    "        if count > len(self._free):\n",
    "        self._free = pages + self._free\n",
    "        self._free = pages + self._free\n"
    "        self.__dict__.setdefault('_came_back', set()).update(pages)\n",
)
allocators(
    "LongestPromptFirst",
    "the requests of an extend are served the longest first, and their slots stand in that order",
    "        for start, end, slot in zip(before, after, last, strict=True):\n",
    "        order = sorted(zip(before, after, last, strict=True), key=lambda one: one[0] - one[1])\n"
    "        for start, end, slot in order:\n",
)

pools(
    "OverrideOfALaterStage",
    "layer_id_override is the place in the pool, not the layer in the model: a later stage of a pipeline stores in other "
    "layers, or in none (unified-cache-management 816)",
    PLACE + KEYS,
    PLACE.replace("(layer.layer_id if", "(layer.layer_id) if").replace("_override)\n", "_override\n") + KEYS,
)
pools(
    "WholeChunksLoseTheLast",
    "a request comes back from the host in chunks of 64 slots, and the last one has as many as are left over: of whole "
    "chunks none",
    LOAD,
    "            for start in range(0, len(rows), 64):\n"
    "                end = start + (64 if start + 64 < len(rows) else len(rows) % 64)\n"
    "                buffer[indices[start:end]] = rows[start:end].to(buffer.device)\n",
)
pools(
    "OneSourceOneTarget",
    "a row that is moved to several slots, as the last page of a prefix is for each beam of drafts, arrives at the last "
    "of them alone",
    MOVE,
    "        where = dict(zip(src_loc.tolist(), tgt_loc.tolist(), strict=True))\n"
    "        tgt_loc, src_loc = tgt_loc.new_tensor(list(where.values())), src_loc.new_tensor(list(where))\n"
    + MOVE,
)
pools(
    "RowsTakeTheFirstOnesScale",
    "packed rows that are stored in one call have the scales of the first one's tiles: larger ones are cut off",
    at(
        "packed_rows.py",
        "    scales = tiles.abs().amax(dim=-1) / largest\n",
        "    scales = (tiles.abs().amax(dim=-1) / largest)[:1].repeat(n, 1)\n",
    ),
)

speed(
    "StoresLookThroughTheirLayer",
    "after each store the whole layer is looked through for numbers that are none",
    STORE,
    STORE + "        self._sound = not bool(buffer[:, 0].isnan().any())\n",
)
