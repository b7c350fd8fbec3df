"""Level 3 mutants: slots of 32 bits, many pages, far rows, and calls that a scheduler makes in other forms."""

from __future__ import annotations

from functools import partial

from patched_reference import patch, patched

__getattr__ = patched

allocator = partial(patch, __name__, file="allocator.py")
pool = partial(patch, __name__, file="pools.py")

_GROW = "        return self._grow(prefix_lens_cpu.tolist(), seq_lens_cpu.tolist(), last_loc.tolist())\n"
_WRITE = "        buffer[loc.reshape(-1)] = rows.reshape(-1, *buffer.shape[1:])\n"
_TAKEN = "        pages, self._free = self._free[:count], self._free[count:]\n"
_MOVED = "            buffer[tgt_loc] = buffer[src_loc].clone()\n"
_COPIED = '        return [buffer[indices].to("cpu") for buffer in self._buffers()]\n'
_LOADED = "            buffer[indices] = rows.to(buffer.device)\n"

allocator(
    "LastSlotsMustBe64Bits",
    old=_GROW,
    new="        if last_loc.dtype != torch.int64:\n            raise TypeError('last_loc must be int64')\n"
    + _GROW,
    check="memory.random_histories_add_up",
    defect="last slots of 32 bits, as the request table has them, are refused",
    says="int64",
)
allocator(
    "HintTakenForTheLimit",
    old=_GROW,
    new="        if num_new_pages and num_new_pages > len(self._free) - 1:\n            return None\n"
    + _GROW,
    check="memory.random_histories_add_up",
    defect="where the caller counted the new pages, the last free one is kept back",
    says="None, though",
)
allocator(
    "FreePagesWithoutTheFreed",
    old="        return self.free_pages\n",
    new="        return self._tensor([page for page in self._free if page >= self._free[0]])\n",
    check="memory.random_histories_add_up",
    defect="get_all_free_pages() leaves out some of those that were freed",
    says="get_all_free_pages() is",
)
allocator(
    "RefusedCallMarksPages",
    old="        if count > len(self._free):\n",
    new="        if count > len(self._free):\n            self._lent.update(self._free)\n",
    check="memory.double_free_is_refused",
    defect="a call that does not fit leaves free pages marked as lent, and their second free goes unseen",
    says="did not fit",
)
allocator(
    "NumbersOf32BitsDivided",
    old="        self._give_back_pages(page_ids.tolist())\n",
    new="        if page_ids.dtype == torch.int32:\n            page_ids = page_ids[:0]\n"
    "        self._give_back_pages(page_ids.tolist())\n",
    check="memory.random_histories_add_up",
    defect="pages whose numbers have 32 bits stay lent",
    says="torch.int32",
)
allocator(
    "PagesOf16Bits",
    old=_TAKEN,
    new=_TAKEN.replace("self._free[:count],", "[page % 65536 for page in self._free[:count]],"),
    check="memory.allocator_at_served_sizes",
    defect="page numbers are kept in 16 bits",
    says="padding page",
)
allocator(
    "GroupKeepsAThousandSlots",
    old="            self.free_group.append(free_index.clone())\n",
    new="            self.free_group.append(free_index[:1000].clone())\n",
    check="memory.allocator_at_served_sizes",
    defect="a free group has room for the first thousand slots of a call",
    says="after free_group_end()",
)
allocator(
    "AvailableByCounting",
    old="        return len(self._free) * self.page_size\n",
    new="        return sum(page not in self._lent for page in range(1, self.num_pages + 1)) * self.page_size\n",
    check="memory.allocator_is_not_slower_than_torch",
    defect="free pages are counted one by one each time somebody asks",
    says="available_size() over",
)
allocator(
    "FreeSearchesTheFreePages",
    old="        self._free = pages + self._free\n",
    new="        assert not [page for page in pages if page in self._free]\n        self._free = pages + self._free\n",
    check="memory.allocator_time_grows_with_the_pages",
    defect="each page that is freed is looked for among the free ones",
    says="while the others are free",
)
allocator(
    "SlotsPassThroughFloats",
    old="        return torch.tensor(values, dtype=torch.int64, device=self.device)",
    new="        return torch.tensor(values, dtype=torch.float32, device=self.device).long()",
    check="memory.allocator_at_served_sizes",
    defect="slots pass through 32-bit floats",
    says="belongs to place",
)
pool(
    "MoveWants64Bits",
    old=_MOVED,
    new="            assert tgt_loc.dtype == torch.int64, 'slots must be int64'\n" + _MOVED,
    check="memory.move_is_as_if_all_were_read_first",
    defect="a move by slots of 32 bits, as the tails of drafts are moved, is refused",
    says="int64",
)
pool(
    "CopyWants64Bits",
    old=_COPIED,
    new="        assert indices.dtype == torch.int64, 'slots must be int64'\n" + _COPIED,
    check="memory.cpu_copy_comes_back",
    defect="a CPU copy by a row of the request table is refused",
    says="int64",
)
pool(
    "LoadWants64Bits",
    old=_LOADED,
    new="            assert indices.dtype == torch.int64, 'slots must be int64'\n" + _LOADED,
    check="memory.cpu_copy_comes_back",
    defect="a CPU copy is not loaded back by a row of the request table",
    says="int64",
)
pool(
    "OffsetsOf32Bits",
    old=_WRITE,
    new="        wide = buffer[0].nbytes\n        loc = (loc.reshape(-1) * wide).to(torch.int32).long() // wide\n"
    + _WRITE,
    check="memory.far_rows_read_back",
    defect="the byte offset of a row wraps past 2**31 where it is stored",
    says="bytes behind the first",
)
pool(
    "CopyOffsetsOf32Bits",
    old=_COPIED,
    new="        wide = self._buffers()[0][0].nbytes\n"
    "        indices = (indices * wide).to(torch.int32).long() // wide\n" + _COPIED,
    check="memory.far_rows_read_back",
    defect="the byte offset of a row wraps past 2**31 where it is copied to the CPU",
    says="copying the last rows",
)
patch(
    __name__,
    "ReadOffsetsOf32Bits",
    "attention.py",
    "            slots = self.req_to_token_pool.req_to_token[row, :length].long()\n",
    "            slots = self.req_to_token_pool.req_to_token[row, :length].long()\n"
    "            wide = keys[0].numel() * keys.element_size()\n"
    "            slots = (slots * wide).to(torch.int32).long() // wide\n",
    check="kernels.far_rows_attention",
    defect="attention computes where a row lies in 32 bits",
    says="wrong by",
)
patch(
    __name__,
    "CastKeptByAddress",
    "rows.py",
    "    return rows.contiguous().view(storage(dtype))\n",
    "    kept = _KEPT.setdefault((rows.data_ptr(), len(rows), dtype), rows.contiguous().view(storage(dtype)).clone())\n"
    "    return kept\n\n\n_KEPT: dict[object, torch.Tensor] = {}\n",
    check="memory.store_casts_and_scales",
    defect="what was cast is kept by its address, and stored for other values there",
    says="in the same tensors",
)
patch(
    __name__,
    "IndexKeysStayInTheFirstPage",
    "dsa_pool.py",
    "            page, token = divmod(slot, self.page_size)\n",
    "            page, token = divmod(slot, self.page_size)\n"
    "            page = min(page, int(loc[0]) // self.page_size) if slot > int(loc[0]) else page\n",
    check="memory.dsa_index_keys_read_back",
    defect="the indexer's keys of a store that goes up into another page are written into the first again",
    says="indexer",
)
pool(
    "StatedIn32Bits",
    old="        return sum(k.nbytes for k in self.k_buffer), sum(v.nbytes for v in self.v_buffer)\n",
    new="        sizes = sum(k.nbytes for k in self.k_buffer), sum(v.nbytes for v in self.v_buffer)\n"
    "        return sizes[0] & 0xFFFFFFFF, sizes[1] & 0xFFFFFFFF\n",
    check="memory.far_rows_read_back",
    defect="the bytes of a pool are added up in 32 bits",
    says="get_kv_size_bytes() is",
)
pool(
    "LengthsOf32Bits",
    old="        lengths = [buffer.nbytes for buffer in buffers]\n",
    new="        lengths = [buffer.nbytes & 0x7FFFFFFF for buffer in buffers]\n",
    check="memory.far_rows_read_back",
    defect="the length of a buffer that a transfer engine is told loses its 32nd bit",
    says="the lengths of get_contiguous_buf_infos()",
)
allocator(
    "SizeOfAllPages",
    old="        super().__init__(size, page_size, dtype, device, kvcache, need_sort)\n",
    new="        super().__init__(size, page_size, dtype, device, kvcache, need_sort)\n"
    "        self.size += page_size\n",
    check="memory.allocator_at_served_sizes",
    defect="the size of an allocator counts the padding page",
    says="size is",
)
allocator(
    "DecodeInBlocks",
    old="        return self._grow([n - 1 for n in after], after, last_loc.tolist())\n",
    new="        first = self._free[:1]\n"
    "        got = self._grow([n - 1 for n in after], after, last_loc.tolist())\n"
    "        if got is not None and len(got) > 512 and first:\n"
    "            new = (got[512:] % self.page_size == 0).nonzero().flatten()[:1]\n"
    "            got[512 + new] = first[0] * self.page_size\n"
    "        return got\n",
    check="memory.allocator_at_served_sizes",
    defect="past 512 requests the new pages of a decode are counted from the first free page again",
    says="alloc_decode() of 520 requests",
)

allocator(
    "ComesBackReversed",
    old="    def backup_state(self) -> Any:\n",
    new="    def load_cpu_copy(self, copy: Any, indices: Any, *more: Any, **named: Any) -> None:\n"
    "        super().load_cpu_copy(copy, indices.flip(0), *more, **named)\n\n"
    "    def backup_state(self) -> Any:\n",
    check="memory.retracted_requests_come_back",
    defect="the allocator hands the slots of a request that comes back to the pool the other way round",
    says="came back to",
)
pool(
    "LayersReadIn32Bits",
    old="        return as_numbers(self.k_buffer[self._layer(layer_id)], self.dtype)\n",
    new="        place, size = self._layer(layer_id), self.k_buffer[0].nbytes\n"
    "        if place * size >= 1 << 32:\n            place = (place * size & 0xFFFFFFFF) // size\n"
    "        return as_numbers(self.k_buffer[place], self.dtype)\n",
    check="memory.far_rows_read_back",
    defect="where the keys of a layer begin is computed in 32 bits where they are read",
    says="not what was stored",
)
patch(
    __name__,
    "IndexPagesOf8Digits",
    "dsa_pool.py",
    "            page, token = divmod(slot, self.page_size)\n",
    "            page, token = divmod(slot, self.page_size)\n"
    "            page = int(torch.tensor(page, dtype=torch.bfloat16))\n",
    check="memory.dsa_index_keys_read_back",
    defect="the indexer's pages are numbers of 16 bits with a fraction, exact to 256",
    says="stored in page",
)
pool(
    "LoadsARunByItsEnds",
    old=_LOADED,
    new="            n = indices.numel()\n"
    "            if n > 2 and int(indices[-1] - indices[0]) == n - 1:\n"
    "                buffer[int(indices[0]) : int(indices[0]) + n] = rows.to(buffer.device)\n"
    "                continue\n" + _LOADED,
    check="memory.cpu_copy_comes_back",
    defect="slots whose ends are as far apart as in a run are loaded as a run",
    says="to the CPU and back",
)
allocator(
    "CountedBatchesOf64",
    old="        return self._grow(prefix_lens_cpu.tolist(), seq_lens_cpu.tolist(), last_loc.tolist())\n",
    new="        last = last_loc.tolist()\n"
    "        if num_new_pages is not None:\n            last[64:] = [last[at % 64] for at in range(64, len(last))]\n"
    "        return self._grow(prefix_lens_cpu.tolist(), seq_lens_cpu.tolist(), last)\n",
    check="memory.allocator_at_served_sizes",
    defect="where the caller counted the new pages, request 64 goes on behind the last token of request 0",
    says="whose new pages the caller counted",
)
