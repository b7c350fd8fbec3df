"""KV pools, third set: offsets that grow, copies that are views, types of one width, pages told to a transfer engine."""

from __future__ import annotations

from broken import Table, at, end

pools = Table("pools 3", "memory", "pools.py")

WRITE = "        buffer[loc.reshape(-1)] = rows.reshape(-1, *buffer.shape[1:])\n"
MOVE = "            buffer[tgt_loc] = buffer[src_loc].clone()\n"
TO_CPU = '        return [buffer[indices].to("cpu") for buffer in self._buffers()]\n'
FROM_CPU = "            buffer[indices] = rows.to(buffer.device)\n"
PAGE_LENGTHS = "        page_lengths = [buffer[0].nbytes * self.page_size for buffer in buffers]\n"
LENGTHS = "        lengths = [buffer.nbytes for buffer in buffers]\n"
KV_BYTES = "        return sum(k.nbytes for k in self.k_buffer), sum(v.nbytes for v in self.v_buffer)\n"
STORE_V = "        self._write(self.v_buffer[place], loc, as_stored(cache_v, self.dtype, v_scale))\n"
CREATE_V = "        self.v_buffer = allocate(self, self.head_num, self.v_head_dim)\n"
MHA_BUFFERS = "        return self.k_buffer + self.v_buffer\n"
KEYS = "        return as_numbers(self.k_buffer[self._layer(layer_id)], self.dtype)\n"
PLAIN = "    if rows.dtype != dtype:\n"
LARGEST = "            largest = torch.finfo(dtype).max\n            rows = rows.clamp(-largest, largest)\n"

pools(
    "ByteOffsetIn31Bits",
    "a row's byte offset is kept in 31 bits: past 2 GiB of a buffer it is written at its beginning",
    WRITE,
    "        width = buffer[0].nbytes\n"
    "        where = loc.reshape(-1).long() * width % (1 << 31) // width\n"
    "        buffer[where] = rows.reshape(-1, *buffer.shape[1:])\n",
    levels="memory kernels",
)
pools(
    "RowsTimesHeadsPast65535",
    "one launch stores 65,535 rows of a head, and what is beyond is left out",
    STORE_V,
    "        most = 65535 // self.head_num\n"
    "        rows_v = cache_v.reshape(loc.numel(), self.head_num, self.v_head_dim)[:most]\n"
    "        self._write(self.v_buffer[place], loc.reshape(-1)[:most], as_stored(rows_v, self.dtype, v_scale))\n",
    levels="memory kernels",
)
pools(
    "MovesInPiecesOf128",
    "more than 128 rows are moved in pieces, so a later piece reads what an earlier one wrote",
    MOVE,
    "            for target, source in zip(tgt_loc.split(128), src_loc.split(128)):\n"
    "                buffer[target] = buffer[source].clone()\n",
)
pools(
    "MoveOfValuesInTheirOwnOrder",
    "values are moved row by row, as if the slots never overlapped, where they are narrower than the keys",
    MOVE,
    "            if buffer.shape[-1] < self._buffers()[0].shape[-1]:\n"
    "                for target, source in zip(tgt_loc.tolist(), src_loc.tolist()):\n"
    "                    buffer[target] = buffer[source]\n"
    "                continue\n" + MOVE,
)
pools(
    "CopyOfARunIsAView",
    "the copy of consecutive slots is a view of the buffer: what is stored later changes it",
    TO_CPU,
    "        first, n = (int(indices[0]), indices.numel()) if indices.numel() else (0, 0)\n"
    "        if indices.tolist() == list(range(first, first + n)):\n"
    '            return [buffer[first : first + n].to("cpu") for buffer in self._buffers()]\n' + TO_CPU,
)
pools(
    "LoadsTheFirst8192",
    "of a request that comes back, slots past the 8,192nd are not loaded",
    FROM_CPU,
    "            buffer[indices[:8192]] = rows[:8192].to(buffer.device)\n",
)
pools(
    "LoadsInAscendingSlots",
    "a request comes back in ascending slots, whatever their order",
    FROM_CPU,
    "            where = indices.sort().values if indices.numel() > 64 else indices\n"
    "            buffer[where] = rows.to(buffer.device)\n",
)
pools(
    "PagesOfValuesAsKeys",
    "the transfer engine is told that a page of values is as long as one of keys",
    PAGE_LENGTHS,
    "        page_lengths = [buffers[0][0].nbytes * self.page_size for _ in buffers]\n",
)
pools(
    "LastPageIsNotRegistered",
    "the transfer engine is told of `size` rows: the last page is not registered",
    LENGTHS,
    "        lengths = [buffer[: self.size].nbytes for buffer in buffers]\n",
)
pools(
    "KeysAndValuesInTurn",
    "the transfer engine is told keys and values layer by layer where a pool has more than two layers",
    "        buffers = self._buffers()\n",
    "        buffers = self._buffers()\n"
    '        if self.layer_num > 2 and hasattr(self, "k_buffer"):\n'
    "            buffers = [rows for pair in zip(self.k_buffer, self.v_buffer) for rows in pair]\n",
)
pools(
    "BytesIn32Bits",
    "the size that is told is kept in 32 bits: past 4 GiB it starts anew",
    KV_BYTES,
    "        k, v = sum(k.nbytes for k in self.k_buffer), sum(v.nbytes for v in self.v_buffer)\n"
    "        return k % (1 << 32), v % (1 << 32)\n",
)
pools(
    "WaitsByModelLayer",
    "a stage that begins at a later layer waits for the layer's number in the model",
    "            self.layer_transfer_counter.wait_until(place)\n",
    "            self.layer_transfer_counter.wait_until(layer_id)\n",
)
pools(
    "ReadsPartsWithoutWaiting",
    "get_mla_kv_buffer reads a layer that is still on its way from the host",
    "        self._wait(layer.layer_id)\n",
    "",
)
pools(
    "WaitsForKeysOnly",
    "values are read without waiting for their layer",
    "    def get_value_buffer(self, layer_id: int) -> torch.Tensor:\n        self._wait(layer_id)\n",
    "    def get_value_buffer(self, layer_id: int) -> torch.Tensor:\n",
)
pools(
    "OverrideLostInTwoParts",
    "set_mla_kv_buffer leaves layer_id_override out",
    "        self.set_kv_buffer(layer, loc, rows, None, layer_id_override)\n",
    "        self.set_kv_buffer(layer, loc, rows, None)\n",
)
pools(
    "RotatedPartIs64Wide",
    "the values of latent rows are all but the last 64 numbers",
    "        return self.get_key_buffer(layer_id)[..., : self.kv_lora_rank]\n",
    "        return self.get_key_buffer(layer_id)[..., :-64]\n",
    levels="memory kernels",
)
pools(
    "PartsInThePoolsType",
    "get_mla_kv_buffer answers in bfloat16 whatever was asked, where the pool is 8-bit",
    "        dtype = dst_dtype or self.dtype\n",
    "        dtype = torch.bfloat16 if self.dtype.itemsize == 1 else dst_dtype or self.dtype\n",
)
pools(
    "SaturatesLikeFnuz",
    "e4m3 saturates at 240, the largest of another device's format",
    at(
        "rows.py",
        "            largest = torch.finfo(dtype).max\n",
        "            largest = min(torch.finfo(dtype).max, 240.0)\n",
    ),
    levels="memory kernels",
)
pools(
    "E5m2SaturatesLikeE4m3",
    "e5m2 saturates at 448",
    at("rows.py", "            largest = torch.finfo(dtype).max\n", "            largest = 448.0\n"),
)
pools(
    "OnlyTensorsScale",
    "a scale that is a plain number is not applied",
    at("rows.py", "        if scale is not None:\n", "        if isinstance(scale, torch.Tensor):\n"),
    levels="memory kernels",
)
pools(
    "SameWidthIsSameType",
    "float16 rows for a bfloat16 pool are stored bit by bit",
    at(
        "rows.py",
        PLAIN,
        "    halves = {torch.float16, torch.bfloat16}\n"
        "    if {rows.dtype, dtype} == halves:\n"
        "        rows = rows.view(dtype) if rows.is_contiguous() else rows.contiguous().view(dtype)\n"
        + PLAIN,
    ),
)
pools(
    "ScalesWhatIsScaled",
    "rows that come in the pool's 8-bit type are divided by the scale again",
    at("rows.py", PLAIN, "    if rows.dtype != dtype or (scale is not None and dtype in FP8):\n"),
)
pools(
    "CastKeptByAddress",
    "a cast is kept by address and shape of what was cast: other values there are stored as the old ones",
    at(
        "rows.py",
        PLAIN,
        "    key = (rows.data_ptr(), tuple(rows.shape), dtype, rows.dtype)\n"
        "    if rows.dtype != dtype and dtype in FP8 and key in _CAST:\n"
        "        return _CAST[key]\n" + PLAIN,
    ),
    at(
        "rows.py",
        "    return rows.contiguous().view(storage(dtype))\n",
        "    _CAST.clear()\n    _CAST[key] = rows.contiguous().view(storage(dtype))\n    return _CAST[key]\n",
    ),
    end("rows.py", "_CAST: dict[object, torch.Tensor] = {}"),
    levels="memory kernels",
)
pools(
    "StoresOnASideStream",
    "256 rows and more are stored by a thread that no reader waits for",
    WRITE,
    "        import threading\n        import time\n\n"
    "        kept, where = rows.clone(), loc.clone()\n\n"
    "        def store() -> None:\n"
    "            time.sleep(0.05)\n"
    "            buffer[where.reshape(-1)] = kept.reshape(-1, *buffer.shape[1:])\n\n"
    "        if loc.numel() >= 256:\n"
    "            threading.Thread(target=store).start()\n"
    "        else:\n"
    "            buffer[loc.reshape(-1)] = rows.reshape(-1, *buffer.shape[1:])\n",
    levels="memory kernels",
)
pools(
    "EverySlotOnce",
    "a store that names a slot twice, as padded rows of a graph do, raises",
    WRITE,
    "        assert loc.unique().numel() == loc.numel()\n" + WRITE,
    levels="memory graphs",
)
pools(
    "WideHeadsOf96InFp8",
    "8-bit values are stored in tiles of 64 columns, and a part of a tile at the end is left out",
    STORE_V,
    "        stored_v = as_stored(cache_v, self.dtype, v_scale)\n"
    "        if self.dtype.itemsize == 1 and self.v_head_dim > 64 and self.v_head_dim % 64:\n"
    "            stored_v = stored_v.reshape(-1, self.head_num, self.v_head_dim).clone()\n"
    "            stored_v[..., self.v_head_dim // 64 * 64 :] = 0\n"
    "        self._write(self.v_buffer[place], loc, stored_v)\n",
    levels="memory kernels",
)
pools(
    "LayersShareTheLastBuffer",
    "from the 33rd layer on, layers share one buffer",
    CREATE_V,
    CREATE_V + "        self.v_buffer[32:] = self.v_buffer[32:33] * len(self.v_buffer[32:])\n",
)
pools(
    "Fp8KeysAreACopy",
    "the keys of an 8-bit pool are answered as a copy: what is stored later is not in it",
    KEYS,
    "        keys = as_numbers(self.k_buffer[self._layer(layer_id)], self.dtype)\n"
    "        return keys.clone() if self.dtype.itemsize == 1 else keys\n",
)
pools(
    "OneScaleForARow",
    "packed rows take the largest of the whole row for all their tiles",
    at(
        "packed_rows.py",
        "    scales = tiles.abs().amax(dim=-1) / largest\n",
        "    scales = (tiles.abs().amax(dim=(-1, -2)) / largest)[:, None].repeat(1, rank // TILE)\n",
    ),
)
pools(
    "PackedRotatedInFloat16",
    "packed rows hold the rotated part as float16",
    at("packed_rows.py", "rotated.to(torch.bfloat16)", "rotated.to(torch.float16)"),
    at("packed_rows.py", "view(torch.bfloat16).float()", "view(torch.float16).float()"),
)
pools(
    "PackedScaleInBits",
    "packed scales are rounded down to powers of two, so that the largest values are cut off",
    at(
        "packed_rows.py",
        "    scales[scales == 0] = 1.0",
        "    scales = torch.exp2(torch.floor(torch.log2(scales.clamp(min=1e-30))))\n    scales[scales == 0] = 1.0",
    ),
)
pools(
    "IndexKeysBySlotOfTheFirst",
    "the indexer's keys of a store that goes on in another page are written on in the page of its first slot",
    at(
        "dsa_pool.py",
        "            page, token = divmod(slot, self.page_size)\n",
        "            page, token = divmod(slot, self.page_size)\n"
        "            page = int(loc[0]) // self.page_size if loc.numel() > 32 and slot > int(loc[0]) else page\n",
    ),
)
pools(
    "IndexKeysStayBehind",
    "more than 16 moved slots leave the indexer's scales behind",
    at(
        "dsa_pool.py",
        "        self.index_key_cache.move(tgt_loc, src_loc)\n",
        "        self.index_key_cache.move(tgt_loc[:16], src_loc[:16])\n",
    ),
)
