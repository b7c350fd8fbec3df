"""A second set: pools and allocators with stores that wait, scales that are kept, vectors, and counters beside lists."""

from broken import Edit, Table, at

pools = Table("pools 2", "memory", "pools.py")

_WRITE = "        buffer[loc.reshape(-1)] = rows.reshape(-1, *buffer.shape[1:])\n"
_MOVE = "            buffer[tgt_loc] = buffer[src_loc].clone()\n"
_COPY = '        return [buffer[indices].to("cpu") for buffer in self._buffers()]\n'
_K = "        self._write(self.k_buffer[place], loc, as_stored(cache_k, self.dtype, k_scale))\n"
_V = "        self._write(self.v_buffer[place], loc, as_stored(cache_v, self.dtype, v_scale))\n"
_ROWS = "        rows = torch.cat([part.reshape(loc.numel(), 1, -1) for part in parts], dim=-1)\n"
_PACKED = "packed_rows.py"
_SCALES = "    scales = tiles.abs().amax(dim=-1) / largest\n"

pools("StoreInVectorsOf16Bytes", "rows are stored in vectors of 16 bytes: what is behind the last whole one is lost", _WRITE,
      "        whole = buffer[0].nbytes // 16 * 16 // buffer.element_size()\n        flat = buffer.flatten(1)\n"
      "        flat[loc.reshape(-1), :whole] = rows.reshape(loc.numel(), -1)[:, :whole]\n")  # fmt: skip
pools("ScaleOfTheFirstStore", "the scales of a layer are read once, at its first store, and kept", _K,
      "        k_scale, v_scale = self.__dict__.setdefault('_scales', {}).setdefault(place, (k_scale, v_scale))\n" + _K)  # fmt: skip
pools("ValuesTakeTheKeysScaleIfNone", "values without a scale are divided by the keys' one", _V,
      _V.replace("v_scale", "k_scale if v_scale is None else v_scale"))  # fmt: skip
pools("OverrideForKeysOnly", "layer_id_override is looked at for keys, not for values", _V,
      "        place = self._layer(layer.layer_id if layer.layer_id in self._held() else place + self.start_layer)\n" + _V,
      "    def _buffers(self) -> list[torch.Tensor]:\n        return self.k_buffer + self.v_buffer\n",
      "    def _buffers(self) -> list[torch.Tensor]:\n        return self.k_buffer + self.v_buffer\n\n"
      "    def _held(self):\n        return range(self.start_layer, self.start_layer + self.layer_num)\n")  # fmt: skip
pools("MoveOf32BitsRefused", "a move by slots of 32 bits is refused", _MOVE,
      "            assert tgt_loc.dtype == torch.int64\n" + _MOVE)  # fmt: skip
pools("CopiesPassThroughBfloat16", "a CPU copy is kept in bfloat16, whatever the pool's type", _COPY,
      _COPY.replace('.to("cpu")', '.to("cpu").bfloat16()'))  # fmt: skip
pools("StoresWaitForAReader", "stores are queued until somebody reads keys: a move or a CPU copy before that misses them",
      _WRITE, "        self.__dict__.setdefault('_queued', []).append((buffer, loc.clone(), rows.clone()))\n",
      "    def _wait(self, layer_id: int) -> None:\n", "    def _wait(self, layer_id: int) -> None:\n"
      "        for buffer, loc, rows in self.__dict__.pop('_queued', []):\n    " + _WRITE)  # fmt: skip
pools("LatentSliceMisread", "the latent that is a slice of a wider row, as models hand it over, is read as if contiguous", _ROWS,
      "        parts = [part if part.is_contiguous() else torch.as_strided(part, part.shape, part.contiguous().stride(),\n"
      "                                                                    part.storage_offset()) for part in parts]\n" + _ROWS)  # fmt: skip
pools("LatentWithoutRotatedFails", "a latent cache without a rotated part (qk_rope_head_dim 0) is not built",
      "        self.kv_buffer = allocate(self, 1, self.kv_cache_dim)\n",
      "        assert self.kv_cache_dim % self.qk_rope_head_dim == 0\n        self.kv_buffer = allocate(self, 1, self.kv_cache_dim)\n")  # fmt: skip
pools("RotatedPartOfTheFirstToken", "the rotated part of one head is broadcast from the first token of a store", _ROWS,
      "        if len(parts) == 2 and loc.numel() > 512:\n            parts[1] = parts[1][:1].expand_as(parts[1])\n" + _ROWS)  # fmt: skip
pools("OddLayersReadBack", "a CPU copy of a pool with an odd number of layers comes back without the last layer's values",
      "        for buffer, rows in zip(self._buffers(), kv_cache_cpu, strict=True):\n",
      "        odd = self.layer_num % 2 and self.layer_num > 1\n"
      "        for buffer, rows in list(zip(self._buffers(), kv_cache_cpu, strict=True))[: -1 if odd else None]:\n")  # fmt: skip
pools("EightBitMovesByFloats", "an 8-bit pool is moved through float16: bytes that are no number change", _MOVE,
      "            if buffer.dtype == torch.uint8:\n"
      "                buffer[tgt_loc] = buffer[src_loc].view(self.dtype).half().nan_to_num(0).to(self.dtype).view(torch.uint8)\n"
      "                continue\n" + _MOVE)  # fmt: skip

dsa = Table("pools 2", "memory", "dsa_pool.py")
dsa("IndexScalesArePowersOfTwo", "the indexer's scales are rounded to powers of two, and its keys were divided by others",
    "        scales = index_k_scale.float().contiguous()", "        scales = torch.exp2(index_k_scale.float().log2().ceil()).contiguous()")  # fmt: skip
dsa("IndexOver256Cut", "a launch stores the indexer's keys of 256 tokens",
    "        for slot, key, scale in zip(loc.tolist(), keys, scales, strict=True):\n",
    "        for slot, key, scale in zip(loc.tolist()[:256], keys[:256], scales[:256], strict=True):\n")  # fmt: skip
dsa("IndexOfLayerIds", "the indexer's keys lie by the layer's number in the model, modulo their number",
    "        place = self._layer(layer_id)\n        buffer = self.index_k",
    "        place = layer_id % self.layer_num\n        buffer = self.index_k")  # fmt: skip


def rows(old: str, new: str) -> Edit:
    return at(_PACKED, old, new)


dsa("PackedRotatedInHalf", "the rotated part of a packed row is float16, where readers expect bfloat16",
    rows("rotated.to(torch.bfloat16)", "rotated.to(torch.float16)"),
    rows(".view(torch.bfloat16).float()", ".view(torch.float16).float()"))  # fmt: skip
dsa("PackedZerosAreNaN", "a tile of zeros has scale 0, and is read as NaN", rows("    scales[scales == 0] = 1.0  # any will do for zeros\n", ""))  # fmt: skip
dsa("PackedScalesInHalf", "scales of packed tiles are rounded to float16: small tiles vanish",
    rows(_SCALES, _SCALES + "    scales = scales.half().float()\n"))  # fmt: skip

allocators = Table("allocators 2", "memory", "allocator.py")

_TAKE = "    def _take(self, count: int) -> list[int] | None:\n"
_AVAILABLE = "        return len(self._free) * self.page_size\n"
_LENT = "        self._lent.update(pages)\n"
_BACK = "        self._lent.difference_update(pages)\n"

allocators("NothingIsTakenForFull", "a request for no slots is answered as if memory were full", _TAKE,
           _TAKE + "        if count == 0:\n            return None\n")  # fmt: skip
allocators("LastLocOf32BitsRefused", "last_loc of 32 bits, as the request table holds it, is refused",
           "        return self._grow(prefix_lens_cpu.tolist()",
           "        assert last_loc.dtype == torch.int64\n        return self._grow(prefix_lens_cpu.tolist()")  # fmt: skip
allocators("EmptyFreeFails", "to free no slots is an error", "        if free_index.numel() == 0:\n            return\n",
           "        assert free_index.max() > 0\n")  # fmt: skip
allocators("FreeOf32BitsRefused", "slots of 32 bits, as alloc_extend answers and the request table holds, are not taken back",
           "        if free_index.numel() == 0:\n", "        assert free_index.dtype == torch.int64\n        if free_index.numel() == 0:\n")  # fmt: skip
allocators("CounterIsNotRestored", "available_size() is a counter that restore_state() does not bring back", _AVAILABLE,
           "        return self._count * self.page_size\n", _LENT, _LENT + "        self._count -= len(pages)\n",
           _BACK, _BACK + "        self._count += len(pages)\n",
           "        self._lent: set[int] = set()\n", "        self._lent: set[int] = set()\n        self._count = self.num_pages\n")  # fmt: skip
allocators("PagesOf16Bits", "pages are kept in 16 bits: of more than 65536 the others are lent as the first ones",
           "        pages, self._free = self._free[:count], self._free[count:]\n",
           "        pages, self._free = [page % 65536 for page in self._free[:count]], self._free[count:]\n")  # fmt: skip
allocators("HintKeepsAPageBack", "where the caller says how many new pages it needs, one more must be free",
           "        return self._grow(prefix_lens_cpu.tolist(), seq_lens_cpu.tolist(), last_loc.tolist())\n",
           "        if num_new_pages and num_new_pages >= len(self._free):\n            return None\n"
           "        return self._grow(prefix_lens_cpu.tolist(), seq_lens_cpu.tolist(), last_loc.tolist())\n")  # fmt: skip
allocators("GroupKeeps64Pages", "of slots that come in one tensor a group keeps those of 64 pages",
           "            self.free_group.append(free_index.clone())\n",
           "            self.free_group.append(free_index[: self.page_size * 64].clone())\n")  # fmt: skip
allocators("PageIdsOf32BitsAgain", "page ids that a tensor of 32 bits names are freed by their slots",
           "        self._give_back_pages(page_ids.tolist())\n",
           "        if page_ids.dtype == torch.int32:\n            page_ids = page_ids // self.page_size\n"
           "        self._give_back_pages(page_ids.tolist())\n")  # fmt: skip
