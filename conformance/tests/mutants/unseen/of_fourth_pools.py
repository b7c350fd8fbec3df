"""KV pools, fourth set: runs that are told by their ends, pools beside each other, later stages of a pipeline."""

from __future__ import annotations

from broken import Table, at, end

pools = Table("pools 4", "memory", "pools.py")
dsa = Table("pools 4", "memory", "dsa_pool.py")

WRITE = "        buffer[loc.reshape(-1)] = rows.reshape(-1, *buffer.shape[1:])\n"
MOVE = "            buffer[tgt_loc] = buffer[src_loc].clone()\n"
TO_CPU = '        return [buffer[indices].to("cpu") for buffer in self._buffers()]\n'
FROM_CPU = "            buffer[indices] = rows.to(buffer.device)\n"
STORE_K = "        self._write(self.k_buffer[place], loc, as_stored(cache_k, self.dtype, k_scale))\n"
STORE_V = "        self._write(self.v_buffer[place], loc, as_stored(cache_v, self.dtype, v_scale))\n"
INFOS = "        buffers = self._buffers()\n        addresses"
CREATE = (
    "        self.k_buffer = allocate(self, self.head_num, self.head_dim)\n"
    "        self.v_buffer = allocate(self, self.head_num, self.v_head_dim)\n"
)
CAST = "        rows = rows.to(dtype)\n"
PLACE_KEYS = "        keys = index_k.contiguous().view(torch.uint8).reshape(loc.numel(), -1)\n"

pools(
    "StoresARunByItsEnds",
    "slots whose last is as far from their first as they are many are stored as one run, in whatever order they are",
    WRITE,
    "        where = loc.reshape(-1)\n"
    "        n = where.numel()\n"
    "        if n > 2 and int(where[-1] - where[0]) == n - 1:\n"
    "            buffer[int(where[0]) : int(where[0]) + n] = rows.reshape(-1, *buffer.shape[1:])\n"
    "            return\n" + WRITE,
    levels="memory kernels",
)
pools(
    "CopiesARunByItsEnds",
    "slots whose last is as far from their first as they are many leave for the host as one run",
    TO_CPU,
    "        n = indices.numel()\n"
    "        if n > 2 and int(indices[-1] - indices[0]) == n - 1:\n"
    "            first = int(indices[0])\n"
    '            return [buffer[first : first + n].to("cpu").clone() for buffer in self._buffers()]\n'
    + TO_CPU,
)
pools(
    "MovesARunByItsEnds",
    "rows are moved as one run where the ends of the sources and of the targets are as far apart as they are many",
    MOVE,
    "            n = src_loc.numel()\n"
    "            if n > 2 and all(int(at[-1] - at[0]) == n - 1 for at in (src_loc, tgt_loc)):\n"
    "                rows = buffer[int(src_loc[0]) : int(src_loc[0]) + n].clone()\n"
    "                buffer[int(tgt_loc[0]) : int(tgt_loc[0]) + n] = rows\n"
    "                continue\n" + MOVE,
)
pools(
    "LayersPast4GiB",
    "all layers lie in one allocation, and where a layer begins is kept in 32 bits: past 4 GiB keys go to earlier layers",
    STORE_K,
    "        size = self.k_buffer[0].nbytes\n"
    "        at = place * size\n"
    "        keys = self.k_buffer[at % (1 << 32) // size if at >= 1 << 32 else place]\n"
    "        self._write(keys, loc, as_stored(cache_k, self.dtype, k_scale))\n",
    levels="memory kernels",
)
pools(
    "TwinPoolsShareTheirBuffers",
    "pools of one shape and type share their keys: a draft model like its target writes over the target's",
    CREATE,
    CREATE
    + "        key = (self.size, self.page_size, self.layer_num, self.head_num, self.head_dim, self.dtype)\n"
    "        self.k_buffer = _KEYS.setdefault(key, self.k_buffer)\n"
    "        for one in self.k_buffer:\n"
    "            one.zero_()\n",
    end("pools.py", "_KEYS: dict[object, list[torch.Tensor]] = {}"),
)
pools(
    "WindowValuesOfTheOthers",
    "in the pool of the layers with a window the width of values is that of the other layers",
    "    def _create_buffers(self) -> None:\n        self.k_buffer",
    "    def __init__(self, *args: Any, **kwargs: Any) -> None:\n"
    '        kwargs.pop("swa_v_head_dim", None)\n'
    "        super().__init__(*args, **kwargs)\n\n"
    "    def _create_buffers(self) -> None:\n        self.k_buffer",
)
pools(
    "PairWithoutWaiting",
    "get_kv_buffer does not wait for a layer that is on its way from the host",
    "    def get_key_buffer(self, layer_id: int) -> torch.Tensor:\n"
    "        self._wait(layer_id)\n"
    "        return as_numbers(self.k_buffer",
    "    def get_kv_buffer(self, layer_id: int) -> Any:\n"
    "        place = self._layer(layer_id)\n"
    "        return as_numbers(self.k_buffer[place], self.dtype), as_numbers(self.v_buffer[place], self.dtype)\n\n"
    "    def get_key_buffer(self, layer_id: int) -> torch.Tensor:\n"
    "        self._wait(layer_id)\n"
    "        return as_numbers(self.k_buffer",
)
pools(
    "InfosByModelLayer",
    "a later stage of a pipeline tells a transfer engine of its buffers by the layers' numbers in the model",
    INFOS,
    "        buffers = self._buffers()\n"
    "        buffers = [buffers[(at + self.start_layer) % len(buffers)] for at in range(len(buffers))]\n"
    "        addresses",
)
pools(
    "LastOfOddHeads",
    "heads are stored in pairs: the last of an odd number of three or more is lost",
    STORE_V,
    "        stored_v = as_stored(cache_v, self.dtype, v_scale).reshape(-1, self.head_num, self.v_head_dim)\n"
    "        if self.head_num > 2 and self.head_num % 2:\n"
    "            stored_v = stored_v.clone()\n"
    "            stored_v[:, -1] = 0\n"
    "        self._write(self.v_buffer[place], loc, stored_v)\n",
    levels="memory kernels",
)
pools(
    "SmallNumbersAreFlushed",
    "e4m3 has no numbers under its smallest normal one (1/64): they are stored as zero",
    at(
        "rows.py",
        CAST,
        "        if dtype == torch.float8_e4m3fn:\n"
        "            rows = torch.where(rows.abs() < 2.0**-6, torch.zeros_like(rows), rows)\n" + CAST,
    ),
    levels="memory kernels",
)
pools(
    "LoadsIntoSortedRuns",
    "a request that comes back to slots that go up is loaded as one run from its first slot",
    FROM_CPU,
    "            if indices.numel() > 1 and bool((indices.diff() > 0).all()):\n"
    "                span = int(indices[-1] - indices[0]) + 1\n"
    "                if span <= 2 * indices.numel():\n"
    "                    buffer[int(indices[0]) : int(indices[0]) + len(rows)] = rows.to(buffer.device)\n"
    "                    continue\n" + FROM_CPU,
)
pools(
    "LatentOverrideOfZero",
    "set_mla_kv_buffer takes a layer_id_override of 0 for none",
    "        self.set_kv_buffer(layer, loc, rows, None, layer_id_override)\n",
    "        self.set_kv_buffer(layer, loc, rows, None, layer_id_override or None)\n",
)
pools(
    "RotatedPartClampedByTheLatent",
    "the rotated part of an 8-bit latent row is cut off at the largest number of the latent",
    "        rows = torch.cat([part.reshape(loc.numel(), 1, -1) for part in parts], dim=-1)\n",
    "        rows = torch.cat([part.reshape(loc.numel(), 1, -1) for part in parts], dim=-1)\n"
    "        if self.dtype.itemsize == 1 and len(parts) == 2:\n"
    "            largest = parts[0].abs().amax().clamp(min=1e-6).to(rows.dtype)\n"
    "            rows = torch.cat((rows[..., : self.kv_lora_rank], rows[..., self.kv_lora_rank :].clamp(-largest, largest)), -1)\n",
)
dsa(
    "IndexPagesIn16Bits",
    "the indexer's pages are kept in 16 bits: page 32,768 is page 0",
    "            page, token = divmod(slot, self.page_size)\n",
    "            page, token = slot // self.page_size & 0x7FFF, slot % self.page_size\n",
)
dsa(
    "IndexKeysSideBySide",
    "keys of the indexer that are a slice of wider rows are read as if they lay side by side",
    PLACE_KEYS,
    "        flat = index_k.view(torch.uint8)\n"
    "        keys = flat.as_strided((loc.numel(), flat.shape[-1]), (flat.shape[-1], 1))\n",
)
dsa(
    "IndexScalesOfAStrideSideBySide",
    "scales of the indexer that are a column of a wider tensor are read as if they lay side by side",
    "        scales = index_k_scale.float().contiguous().view(torch.uint8).reshape(loc.numel(), -1)\n",
    "        numbers = index_k_scale.float()\n"
    "        width = numbers.numel() // loc.numel()\n"
    "        side = numbers.as_strided((loc.numel(), width), (width, 1))\n"
    "        scales = side.contiguous().view(torch.uint8).reshape(loc.numel(), -1)\n",
)
