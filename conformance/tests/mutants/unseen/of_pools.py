"""KV pools that keep rows wrongly for some sizes, types, strides or layers, or give wrong account of themselves."""

from broken import Edit, Table, at, end

pools = Table("pools", "memory kernels", "pools.py")

_WRITE = "        buffer[loc.reshape(-1)] = rows.reshape(-1, *buffer.shape[1:])\n"
_MOVE = "            buffer[tgt_loc] = buffer[src_loc].clone()\n"
_COPY = '        return [buffer[indices].to("cpu") for buffer in self._buffers()]\n'
_LOAD = "            buffer[indices] = rows.to(buffer.device)\n"
_K = "        self._write(self.k_buffer[place], loc, as_stored(cache_k, self.dtype, k_scale))\n"
_V = "        self._write(self.v_buffer[place], loc, as_stored(cache_v, self.dtype, v_scale))\n"
_KB = "        return as_numbers(self.k_buffer[self._layer(layer_id)], self.dtype)\n"
_VB = "        return as_numbers(self.v_buffer[self._layer(layer_id)], self.dtype)\n"
_INFO = "        lengths = [buffer.nbytes for buffer in buffers]\n"
_PAGES = "        page_lengths = [buffer[0].nbytes * self.page_size for buffer in buffers]\n"
_MLA_ROWS = "        rows = torch.cat([part.reshape(loc.numel(), 1, -1) for part in parts], dim=-1)\n"
_MLA_GET = (
    "        latent, rotated = self._parts(self.kv_buffer[self._layer(layer.layer_id)][loc.reshape(-1)])\n"
)
_CAST = "    return rows.contiguous().view(storage(dtype))\n"
_SCALE = "            rows = rows / scale\n"
_CLAMP = "            rows = rows.clamp(-largest, largest)\n"
_ZEROS = "        torch.zeros((slots, *row), dtype=storage(pool.dtype), device=pool.device)  # type: ignore[attr-defined]\n"


def rows(old: str, new: str) -> Edit:
    return at("rows.py", old, new)


# Stores

for _most in (256, 1024, 2048):
    pools(f"StoreOver{_most}Cut", f"a launch stores {_most} rows; those behind are lost", _WRITE,
          f"        loc, rows = loc.reshape(-1)[:{_most}], rows.reshape(-1, *buffer.shape[1:])[:{_most}]\n" + _WRITE)  # fmt: skip
pools("StoreOddCountCut", "rows are stored in pairs: of an odd number above 64 the last is lost", _WRITE,
      "        if loc.numel() > 64 and loc.numel() % 2:\n"
      "            loc, rows = loc.reshape(-1)[:-1], rows.reshape(-1, *buffer.shape[1:])[:-1]\n" + _WRITE)  # fmt: skip
pools("StoredSlotsOf16Bits", "slots are kept in 16 bits when they are written", _WRITE,
      _WRITE.replace("loc.reshape(-1)]", "loc.reshape(-1).to(torch.int16).long()]"))  # fmt: skip
pools("OffsetsOf32Bits", "the byte offset of a row wraps past 2**31", _WRITE,
      "        wide = buffer[0].nbytes\n        loc = (loc.reshape(-1) * wide).to(torch.int32).long() // wide\n" + _WRITE)  # fmt: skip
pools("LastPageIsNotReached", "slots of the last page are clamped to the one before", _WRITE,
      "        loc = loc.reshape(-1).clamp(max=len(buffer) - 1 - (self.page_size > 1))\n" + _WRITE)  # fmt: skip
pools("Int32LocRefused", "slots of 32 bits, as the request table holds them, are refused", _WRITE,
      "        assert loc.dtype == torch.int64\n" + _WRITE)  # fmt: skip
pools("StridedLocMisread", "slots that are a slice with a stride are read as if contiguous", _WRITE,
      "        if not loc.is_contiguous():\n"
      "            loc = torch.as_strided(loc, loc.shape, (1,), loc.storage_offset())\n" + _WRITE)  # fmt: skip
pools("StridedValuesMisread", "values of another stride than the keys are read with the keys' stride", _V,
      "        if cache_v.stride() != cache_k.stride() and not cache_v.is_contiguous():\n"
      "            cache_v = torch.as_strided(cache_v, cache_v.shape, cache_v.contiguous().stride(),\n"
      "                                       cache_v.storage_offset())\n" + _V)  # fmt: skip
pools("FlatRowsRefused", "keys of 2 dimensions, [n, heads * head_dim], are refused", _K,
      "        assert cache_k.dim() == 3\n" + _K)  # fmt: skip
pools("DuplicateSlotsRefused", "a store that names a slot twice (padded rows of a graph) is refused", _WRITE,
      "        assert len(set(loc.tolist())) == loc.numel()\n" + _WRITE)  # fmt: skip
pools("PaddingSlotRefused", "a store to slot 0 is refused", _WRITE,
      "        if loc.numel() and int(loc.min()) < self.page_size:\n"
      "            raise IndexError('slot 0 is reserved')\n" + _WRITE)  # fmt: skip
pools("WholePageWritten", "a store clears the rest of the page behind its last row", _WRITE,
      _WRITE + "        last = int(loc.reshape(-1)[-1]) if loc.numel() else 0\n"
      "        edge = -(-(last + 1) // self.page_size) * self.page_size\n        buffer[last + 1 : edge] = 0\n")  # fmt: skip
pools("NextLayerWritten", "the last slot of a layer's store is written to the next layer too", _K,
      _K + "        if place + 1 < self.layer_num:\n"
      "            self.k_buffer[place + 1][loc.reshape(-1)[-1:]] = self.k_buffer[place][loc.reshape(-1)[-1:]]\n")  # fmt: skip
pools("OverrideZeroIgnored", "layer_id_override 0 is taken for none", "        self._write(self.k_buffer[place]",
      "        if layer_id_override == 0:\n            place = self._layer(layer.layer_id)\n"
      "        self._write(self.k_buffer[place]")  # fmt: skip
pools("UnequalValueDimSwapped", "rows of values narrower than keys are written from their end", _V,
      "        if self.v_head_dim < self.head_dim:\n            cache_v = cache_v.reshape(-1, self.head_num, "
      "self.v_head_dim).float().flip(-1).to(cache_v.dtype)\n" + _V)  # fmt: skip
pools("ValueDimOver128Cut", "of values wider than 128 numbers the others are not stored", _V,
      "        if self.v_head_dim > 128:\n            cache_v = cache_v.clone()\n"
      "            cache_v.reshape(-1, self.head_num, self.v_head_dim)[..., 128:] = 0\n" + _V)  # fmt: skip
pools("LocIsClamped", "the caller's slots are clamped in place", _WRITE,
      "        loc.clamp_(min=1)\n" + _WRITE)  # fmt: skip
pools("InputIsRounded", "the caller's keys are rounded in place to the type of the pool", _K,
      "        cache_k.copy_(cache_k.to(self.dtype).to(cache_k.dtype))\n" + _K)  # fmt: skip

# Casts and scales

pools(
    "ScaleMultiplied", "rows are multiplied by their scale", rows(_SCALE, "            rows = rows * scale\n")
)
pools("ScaleTensorAsOne", "a scale that is a tensor is taken for 1", rows(
    _SCALE, "            rows = rows / (1 if isinstance(scale, torch.Tensor) else scale)\n"))  # fmt: skip
pools("ScaleFloatAsOne", "a scale that is a number is taken for 1", rows(
    _SCALE, "            rows = rows / (scale if isinstance(scale, torch.Tensor) else 1)\n"))  # fmt: skip
pools("ValuesByKeyScale", "values are divided by the scale of the keys", _V, _V.replace("v_scale", "k_scale"))
pools("Fp8Wraps", "e5m2 values beyond the range become infinity", rows(
    _CLAMP, "            if dtype == torch.float8_e4m3fn:\n    " + _CLAMP))  # fmt: skip
pools("Fp8NaNBecomesLargest", "e4m3 values beyond 256 are cut there", rows(
    _CLAMP, _CLAMP + "            if dtype == torch.float8_e4m3fn:\n                rows = rows.clamp(-256, 256)\n"))  # fmt: skip
pools("Fp8Truncates", "8-bit floats are truncated, not rounded to the nearest", rows(
    "        rows = rows.to(dtype)\n",
    "        if dtype in FP8:\n            rows = rows * (1 - 2.0**-4)\n        rows = rows.to(dtype)\n"))  # fmt: skip
pools("HalfThroughBfloat16", "rows for a float16 pool pass through bfloat16", rows(
    "        rows = rows.to(dtype)\n",
    "        if dtype == torch.float16:\n            rows = rows.bfloat16()\n        rows = rows.to(dtype)\n"))  # fmt: skip
pools("ScaleInHalf", "the quotient by the scale is rounded to the input's 16 bits before it is cast", rows(
    "        rows = rows.float()\n", "        kind = rows.dtype\n        rows = rows.float()\n"), rows(
    _SCALE, "            rows = (rows / scale).to(kind).float() + 0 * rows\n"))  # fmt: skip
pools("ScaledAgain", "rows of the pool's type are scaled again", rows(
    "    if rows.dtype != dtype:\n", "    if rows.dtype != dtype or (scale is not None and dtype not in FP8):\n"))  # fmt: skip

# Reads

pools("KeysAreACopy", "get_key_buffer answers with a copy, which later stores do not reach", _KB,
      _KB.replace(", self.dtype)", ", self.dtype).clone()"))  # fmt: skip
pools("ValuesReadAsBytes", "the values of an e5m2 pool are handed out as bytes", _VB,
      "        raw = self.v_buffer[self._layer(layer_id)]\n"
      "        return raw if self.dtype == torch.float8_e5m2 else as_numbers(raw, self.dtype)\n")  # fmt: skip
pools("TransferCounterIgnored", "a reader does not wait for the layer that the hierarchical cache is loading",
      "        if self.layer_transfer_counter is not None:\n", "        if False:\n")  # fmt: skip
pools("LatentValuesFromTheEnd", "an MLA pool's values are the last numbers of a row",
      "        return self.get_key_buffer(layer_id)[..., : self.kv_lora_rank]\n",
      "        return self.get_key_buffer(layer_id)[..., -self.kv_lora_rank :]\n")  # fmt: skip
pools("LatentPartsOtherOrder", "the rotated part is stored before the latent", _MLA_ROWS,
      _MLA_ROWS.replace("for part in parts]", "for part in reversed(parts)]"))  # fmt: skip
pools("LatentPartsOver512Cut", "set_mla_kv_buffer stores the first 512 tokens", _MLA_ROWS,
      _MLA_ROWS + "        loc, rows = loc[:512], rows[:512]\n")  # fmt: skip
pools("LatentGetIgnoresType", "get_mla_kv_buffer answers in the pool's type, whatever is asked for",
      "        dtype = dst_dtype or self.dtype\n", "        dtype = self.dtype\n")  # fmt: skip
pools("LatentGetIsPermuted", "get_mla_kv_buffer answers in the order of the slots", _MLA_GET,
      "        loc = loc.reshape(-1).sort().values\n" + _MLA_GET)  # fmt: skip
pools("LatentOverrideIgnored", "set_mla_kv_buffer does not look at layer_id_override",
      "        self.set_kv_buffer(layer, loc, rows, None, layer_id_override)\n",
      "        self.set_kv_buffer(layer, loc, rows, None)\n")  # fmt: skip

# Moves and copies

pools("MoveInTurn", "rows are moved one after the other, so an overlap reads what was written", _MOVE,
      "            for target, source in zip(tgt_loc.tolist(), src_loc.tolist(), strict=True):\n"
      "                buffer[target] = buffer[source]\n")  # fmt: skip
pools("MoveKeysOnly", "values are not moved where they are narrower than keys", _MOVE,
      "            if buffer.shape == self._buffers()[0].shape:\n    " + _MOVE)  # fmt: skip
pools("MoveFirstLayers", "of more than 4 layers the others are not moved",
      "        for buffer in self._buffers():\n            buffer[tgt_loc]",
      "        for buffer in self._buffers()[:4]:\n            buffer[tgt_loc]")  # fmt: skip
pools("MoveOver1024Cut", "a move takes 1024 slots", _MOVE,
      "            tgt_loc, src_loc = tgt_loc[:1024], src_loc[:1024]\n" + _MOVE)  # fmt: skip
pools("CpuCopyIsAView", "the CPU copy of consecutive slots is a view of the cache", _COPY,
      "        first, n = (int(indices[0]), indices.numel()) if indices.numel() else (0, 0)\n"
      "        if indices.tolist() == list(range(first, first + n)):\n"
      "            return [buffer[first : first + n] for buffer in self._buffers()]\n" + _COPY)  # fmt: skip
pools("CpuCopyForSameSlots", "a CPU copy comes back to the slots it came from, not to those asked for", _COPY,
      "        self._from = indices.clone()\n" + _COPY, _LOAD, _LOAD.replace("[indices]", "[self._from]"))  # fmt: skip
pools("OneCpuCopy", "a second CPU copy overwrites the first", _COPY,
      "        self._saved = getattr(self, '_saved', None) or [buffer.clone() for buffer in self._buffers()]\n"
      "        for kept, buffer in zip(self._saved, self._buffers(), strict=True):\n"
      "            kept[: indices.numel()] = buffer[indices]\n"
      "        return [kept[: indices.numel()] for kept in self._saved]\n")  # fmt: skip

# Accounts

pools("SizeOfKeysTwice", "the size of keys is stated for values too",
      "sum(k.nbytes for k in self.k_buffer), sum(v.nbytes for v in self.v_buffer)",
      "(sum(k.nbytes for k in self.k_buffer),) * 2")  # fmt: skip
pools("SizeWithoutPadding", "the padding page is not counted", "        return sum(rows.nbytes for rows in self.kv_buffer)\n",
      "        return sum(rows[self.page_size :].nbytes for rows in self.kv_buffer)\n")  # fmt: skip
pools("InfoOfOnePage", "the bytes of a page are those of a slot for page sizes above 4", _PAGES,
      _PAGES.replace("* self.page_size", "* (self.page_size if self.page_size <= 4 else 1)"))  # fmt: skip
pools("InfoWithoutValues", "buffer lengths are those of the keys for all", _INFO,
      "        lengths = [buffers[0].nbytes for buffer in buffers]\n")  # fmt: skip
pools("InfoOrderByLayer", "keys and values alternate in the buffer infos", "        buffers = self._buffers()\n",
      "        buffers = self._buffers()\n        half = len(buffers) // 2\n"
      "        if hasattr(self, 'v_buffer'):\n"
      "            buffers = [b for pair in zip(buffers[:half], buffers[half:], strict=True) for b in pair]\n")  # fmt: skip
pools("ScratchPerPool", "each pool keeps a second buffer of its size that it does not state",
      "        self.v_buffer = allocate(self, self.head_num, self.v_head_dim)\n",
      "        self.v_buffer = allocate(self, self.head_num, self.v_head_dim)\n"
      "        self.shadow = [k.clone() for k in self.k_buffer]\n")  # fmt: skip
pools("BuffersNotZeroed", "buffers are as the allocator of memory left them", rows(
    _ZEROS, _ZEROS.replace("torch.zeros(", "torch.full(").replace("row), dtype", "row), 77, dtype")))  # fmt: skip
pools("LayersOfOneMemory", "the last two layers of more than 8 share their memory", end(
    "rows.py", "_apart = allocate\n\n\ndef allocate(pool: object, *row: int) -> list[torch.Tensor]:\n"
    "    all_layers = _apart(pool, *row)\n    if len(all_layers) > 8:\n"
    "        all_layers[-1] = all_layers[-2]\n    return all_layers"))  # fmt: skip
pools("StageOffsetByEnd", "with a start_layer above 8 layers are counted from there on once more",
      "        place = layer_id - self.start_layer\n",
      "        place = layer_id - self.start_layer\n        if self.start_layer > 8:\n"
      "            place = (place + 1) % self.layer_num\n")  # fmt: skip
pools("PoolOfFirstSize", "the number of slots of the first pool of a process serves all", rows(
    "    slots = pool.size + pool.page_size  # type: ignore[attr-defined]\n",
    "    slots = _FIRST.setdefault('slots', pool.size + pool.page_size)  # type: ignore[attr-defined]\n"), rows(
    "def allocate(", "_FIRST: dict = {}\n\n\ndef allocate("))  # fmt: skip

# DSA

dsa = Table("pools", "memory", "dsa_pool.py")
dsa("IndexScaleOfFirstBlock", "indexer keys of more than 128 numbers keep one scale",
    "            buffer[page, scale_at : scale_at + scale.numel()] = scale\n",
    "            buffer[page, scale_at : scale_at + 4] = scale[:4]\n")  # fmt: skip
dsa("IndexPagesOf64", "the place of scales assumes pages of 64",
    "            scale_at = self.page_size * key.numel() + token * scale.numel()\n",
    "            scale_at = (64 * key.numel() + token * scale.numel()) % (buffer.shape[1] - scale.numel() + 1)\n")  # fmt: skip
dsa("IndexNotMoved", "a move leaves the indexer's keys behind",
    "        self.index_key_cache.move(tgt_loc, src_loc)\n", "")  # fmt: skip
dsa("IndexNotCopied", "a CPU copy comes back without the indexer's keys of the last layer",
    "        for layer, parts in enumerate(keys):\n", "        for layer, parts in enumerate(keys[:-1]):\n")  # fmt: skip
dsa("IndexNotCounted", "the indexer's keys are not counted in the size",
    "super().get_kv_size_bytes() + sum(keys.nbytes for keys in self.index_k_with_scale_buffer)",
    "super().get_kv_size_bytes()")  # fmt: skip

pools("Reference", "the reference itself", healthy=True, levels="memory kernels graphs")
