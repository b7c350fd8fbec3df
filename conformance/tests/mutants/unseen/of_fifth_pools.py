"""KV pools, fifth set: retracted requests, uneven stages, rounding on the way, indexer keys. Names in brackets are bugs
of other projects that a defect is modelled on."""

from __future__ import annotations

from broken import Table, at

pools = Table("pools 5", "memory", "pools.py")
dsa = Table("pools 5", "memory", "dsa_pool.py")

MOVE = "            buffer[tgt_loc] = buffer[src_loc].clone()\n"
TO_CPU = '        return [buffer[indices].to("cpu") for buffer in self._buffers()]\n'
CLAMP = "            rows = rows.clamp(-largest, largest)\n"
WAIT = "            self.layer_transfer_counter.wait_until(place)\n"
STORE_K = "        self._write(self.k_buffer[place], loc, as_stored(cache_k, self.dtype, k_scale))\n"
GET_LATENT = (
    "        latent, rotated = self._parts(self.kv_buffer[self._layer(layer.layer_id)][loc.reshape(-1)])\n"
)
INDEX_MOVE = "        self.index_key_cache.move(tgt_loc, src_loc)\n"
SIZE = "    def get_kv_size_bytes(self) -> int:\n        return super()"

pools(
    "EightBitsByWayOfSixteen",
    "numbers go to e4m3 through float16 without rounding: those just over a middle go down (FreeToken 103)",
    at(
        "rows.py",
        "        rows = rows.to(dtype)\n",
        "        if dtype == torch.float8_e4m3fn:\n"
        "            rows = (rows.float().contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)\n"
        "        rows = rows.to(dtype)\n",
    ),
    levels="memory kernels",
)
pools(
    "InfinitiesOfE5m2Stay",
    "e5m2 has infinities, and those of the input are stored: one of them makes a request's scores NaN",
    at(
        "rows.py",
        CLAMP,
        "            kept = rows\n" + CLAMP + "            if dtype == torch.float8_e5m2:\n"
        "                rows = torch.where(kept.isinf(), kept, rows)\n",
    ),
)
pools(
    "LatentOfAnUnevenStage",
    "get_mla_kv_buffer takes a layer's number modulo the stage's layers: right where stages are of one size "
    "(vllm-ascend 12060)",
    GET_LATENT,
    "        own = self.start_layer + layer.layer_id % self.layer_num\n"
    "        latent, rotated = self._parts(self.kv_buffer[self._layer(own)][loc.reshape(-1)])\n",
)
pools(
    "MovesWholePagesToWholePages",
    "a move of exactly one page's run writes to the page of the first target, wherever in it that lies",
    MOVE,
    "            n, page = src_loc.numel(), self.page_size\n"
    "            if n == page > 1 and int(src_loc[0]) % page == 0 and bool((src_loc.diff() == 1).all()):\n"
    "                first = int(tgt_loc[0]) // page * page\n"
    "                buffer[first : first + page] = buffer[int(src_loc[0]) : int(src_loc[0]) + page].clone()\n"
    "                continue\n" + MOVE,
)
pools(
    "FourStagingBuffersForCopies",
    "copies of slots lie in four staging buffers that are used in turn: the fifth retracted request of one length "
    "writes over the first",
    TO_CPU,
    "        ring = self.__dict__.setdefault('_ring', {}).setdefault(indices.numel(), [[], 0])\n"
    "        fresh = [buffer[indices].to('cpu') for buffer in self._buffers()]\n"
    "        if len(ring[0]) < 4:\n"
    "            ring[0].append(fresh)\n"
    "            return fresh\n"
    "        kept = ring[0][ring[1] % 4]\n"
    "        ring[1] += 1\n"
    "        for into, new in zip(kept, fresh, strict=True):\n"
    "            into.copy_(new)\n"
    "        return kept\n",
)
pools(
    "RetractsNeedInt64",
    "get_cpu_copy refuses slots of 32 bits, which the host takes from its request table as they are",
    TO_CPU,
    "        if indices.dtype != torch.int64:\n"
    '            raise TypeError(f"slots must be int64, not {indices.dtype}")\n' + TO_CPU,
)
pools(
    "BuffersOfInferenceMode",
    "buffers are made in inference mode: whoever stores outside of it gets an error",
    at(
        "rows.py",
        "    return [\n        torch.zeros((slots",
        "    with torch.inference_mode():\n      return [\n        torch.zeros((slots",
    ),
)
pools(
    "WaitsOncePerLayer",
    "a layer is waited for once with a counter: the next load with the same counter is not waited for",
    WAIT,
    "            seen = self.__dict__.setdefault('_seen', set())\n"
    "            if (id(self.layer_transfer_counter), place) not in seen:\n"
    "                seen.add((id(self.layer_transfer_counter), place))\n"
    "                self.layer_transfer_counter.wait_until(place)\n",
)
pools(
    "StoresOnlyNewObjects",
    "a store is left out where keys of the same id() come for the same layer as just before: in a draft model of one layer "
    "the next step's keys often have the id of those that are gone",
    STORE_K,
    "        last = (place, id(cache_k), loc.numel())\n"
    "        same = self.__dict__.get('_last') == last\n"
    "        self._last = None if same else last\n"
    "        if same:\n"
    "            return\n" + STORE_K,
    levels="memory kernels graphs",
)
dsa(
    "IndexKeysReadBeforeTheyArrive",
    "keys of the indexer are read without waiting for their layer's load (SGLang 22811)",
    SIZE,
    "    def _continuous(self, layer_id: int, seq_len: int, page_indices: torch.Tensor) -> Any:\n"
    "        counter, self.layer_transfer_counter = self.layer_transfer_counter, None\n"
    "        try:\n"
    "            return super()._continuous(layer_id, seq_len, page_indices)\n"
    "        finally:\n"
    "            self.layer_transfer_counter = counter\n\n" + SIZE,
)
dsa(
    "IndexKeysStayInTheirPage",
    "a move within single pages moves rows and leaves the indexer's keys where they are",
    INDEX_MOVE,
    "        if bool((tgt_loc // self.page_size != src_loc // self.page_size).any()):\n"
    "            self.index_key_cache.move(tgt_loc, src_loc)\n",
)
dsa(
    "IndexCopiesCountTheirLayersOnly",
    "copies of the indexer's keys leave layers without an indexer out, and are loaded as if there were none such",
    "            None if skipped else [part.clone() for part in self.index_key_cache.load(layer, indices)]\n"
    "            for layer, skipped in enumerate(self.skip_topk_layers)\n",
    "            [part.clone() for part in self.index_key_cache.load(layer, indices)]\n"
    "            for layer, skipped in enumerate(self.skip_topk_layers)\n"
    "            if not skipped\n",
    "            if parts is not None:\n",
    "            if self.index_k_with_scale_buffer[layer].shape[0]:\n",
)
dsa(
    "IndexTablesOfOneWidth",
    "page tables that are a slice of wider ones are read as if their rows lay side by side",
    SIZE,
    "    def get_index_k_scale_buffer(\n"
    "        self, layer_id: int, seq_len_tensor: Any, page_indices: Any, seq_len_sum: int, max_seq_len: int\n"
    "    ) -> Any:\n"
    "        if page_indices.dim() == 2 and page_indices.stride(0) > page_indices.shape[1]:\n"
    "            page_indices = page_indices.as_strided(page_indices.shape, (page_indices.shape[1], 1))\n"
    "        return super().get_index_k_scale_buffer(layer_id, seq_len_tensor, page_indices, seq_len_sum, max_seq_len)\n\n"
    + SIZE,
)
