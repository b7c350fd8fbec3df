"""Allocators and pools, seventh set: groups and backups, part words of pages, second counters and moves, types of slots.
Names in brackets are bugs of other projects that a defect is modelled on."""

from __future__ import annotations

from broken import Table, at

allocators = Table("allocators 7", "memory", "allocator.py")
pools = Table("pools 7", "memory", "pools.py")
speed = Table("speed 7", "memory", "pools.py")

FREE = "        self._free = list(range(1, self.num_pages + 1))\n"
GROUP_END = "        slots, self.free_group = self.free_group, None\n"
SEGMENT = "    def free_segment(self, free_index: torch.Tensor, *, start_pos: int) -> None:\n"
RESTORE = "        self._free, self._lent = list(free), set(lent)\n"
WAIT = "    def _wait(self, layer_id: int) -> None:\n"
MOVE = "        for buffer in self._buffers():\n            buffer[tgt_loc] = buffer[src_loc].clone()\n"
LOAD = "            buffer[indices] = rows.to(buffer.device)\n"
CREATE = "    def _create_buffers(self) -> None:\n        self.k_buffer = allocate(self, self.head_num, self.head_dim)\n"
PARTS = "        self._wait(layer.layer_id)\n        latent, rotated"
SIZE = "    def get_kv_size_bytes(self) -> int:\n"

allocators(
    "EndOfNoGroup",
    "to end a group that is not open, as after a flush within it, is an error",
    GROUP_END,
    "        assert self.free_group is not None\n" + GROUP_END,
)
allocators(
    "PagesOfAPartWord",
    "free pages are bits of words of 64: of a pool whose pages are no multiple of that, the last word is not lent",
    FREE,
    "        pages = self.num_pages if self.num_pages < 64 else self.num_pages // 64 * 64\n"
    "        self._free = list(range(1, pages + 1))\n",
)
allocators(
    "FreeFullIsForTwoPools",
    "free_full, by which a hybrid cache gives slots of one pool back, does nothing where there is one pool only",
    SEGMENT,
    "    def free_full(self, free_index: torch.Tensor) -> None:\n"
    '        """There is one pool."""\n\n'
    "    def free_full_segment(self, free_index: torch.Tensor, *, start_pos: int) -> None:\n"
    '        """There is one pool."""\n\n' + SEGMENT,
)
allocators(
    "RestoreForgetsTheGroup",
    "to restore a backup while frees wait in a group forgets those: their pages are lost",
    RESTORE,
    RESTORE + "        if self.free_group is not None:\n"
    "            self.free_group, self.free_page_ids_group = [], []\n",
)

pools(
    "TheFirstCounterStays",
    "a pool that has a counter for layers on their way keeps it: of one that is registered later nobody waits",
    WAIT,
    "    def register_layer_transfer_counter(self, layer_transfer_counter: Any) -> None:\n"
    "        if self.layer_transfer_counter is None:\n"
    "            self.layer_transfer_counter = layer_transfer_counter\n\n" + WAIT,
)
pools(
    "TheSameMoveTwice",
    "a move between the slots of the move before is left out, though they hold other tokens by now",
    MOVE,
    "        moved = self.__dict__.get('_moved')\n"
    "        if moved and torch.equal(moved[0], tgt_loc) and torch.equal(moved[1], src_loc):\n"
    "            return\n"
    "        self._moved = (tgt_loc.clone(), src_loc.clone())\n" + MOVE,
)
pools(
    "PartsBySlotsOf32Bits",
    "slots of 32 bits, by which a chunk of a long prefix is read, are read as pairs that make up one of 64 bits",
    PARTS,
    "        if loc.dtype == torch.int32:\n"
    "            loc = torch.cat((loc, loc.new_zeros(len(loc) % 2))).view(torch.int64) % (self.size + 1)\n"
    + PARTS,
)
pools(
    "SharedPrefixesAreReadOnce",
    "of slots that stand twice, as two requests of a chunk have them that share a prefix, the first place is read only",
    PARTS,
    "        _, at_first = torch.unique(loc, return_inverse=True)\n"
    "        again = torch.ones(len(loc), dtype=torch.bool)\n"
    "        for place, one in enumerate(at_first.tolist()):\n"
    "            again[place] = one in at_first[:place].tolist()\n"
    "        loc = torch.where(again, 0, loc)\n" + PARTS,
)
pools(
    "WindowHeadsOfTheOthers",
    "the pool of the layers with a window has as many heads as that of the others",
    CREATE,
    "    def __init__(self, *args: Any, **kwargs: Any) -> None:\n"
    "        if kwargs.get('swa_head_num') is not None:\n"
    "            kwargs['swa_head_num'] = kwargs.get('head_num', kwargs['swa_head_num'])\n"
    "        super().__init__(*args, **kwargs)\n\n" + CREATE,
)
pools(
    "PoolOfNoLayers",
    "layers lie in one allocation, made of their buffers: a stage of a pipeline without layers of the kind is an error",
    CREATE,
    CREATE + "        whole = torch.stack(self.k_buffer)\n        self.k_buffer = list(whole.unbind())\n",
)
pools(
    "IndexPagesWithoutTheirScales",
    "a transfer engine is told that a page of the indexer is as long as its keys: scales do not arrive",
    at(
        "dsa_pool.py",
        SIZE,
        "    def get_state_buf_infos(self) -> tuple[list[int], list[int], list[int]]:\n"
        "        addresses, lengths, pages = super().get_state_buf_infos()\n"
        "        return addresses, lengths, [min(one, self.page_size * self.index_head_dim) for one in pages]\n\n"
        + SIZE,
    ),
)

speed(
    "ComesBackSlotBySlot",
    "a request that comes back from the host is written slot by slot, with a copy for each layer",
    LOAD,
    "            for slot, row in zip(indices.tolist(), rows, strict=True):\n"
    "                buffer[slot] = row.to(buffer.device)\n",
)
