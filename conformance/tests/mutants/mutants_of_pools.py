"""Level 3 mutants: KV pools."""

from __future__ import annotations

from functools import partial

from patched_reference import patch, patched

__getattr__ = patched

pool = partial(patch, __name__)

pool(
    "RowOneTooFar",
    "pools.py",
    "buffer[loc.reshape(-1)] =",
    "buffer[(loc.reshape(-1) + 1).clamp(max=len(buffer) - 1)] =",
    check="memory.store_reads_back",
    defect="each row is written one slot too far",
    says="slot",
)
pool(
    "ShapeOfOneRow",
    "pools.py",
    "    def get_kv_size_bytes(self) -> tuple[int, int]:",
    "    def get_kv_buffer_shape(self):\n        return self.k_buffer[0].shape[1:], self.v_buffer[0].shape[1:]\n\n"
    "    def get_kv_size_bytes(self) -> tuple[int, int]:",
    check="memory.stated_size_is_what_is_allocated",
    defect="get_kv_buffer_shape() leaves out the rows",
    says="get_kv_buffer_shape() is",
)
pool(
    "WrongLayerOffset",
    "pools.py",
    "return as_numbers(self.v_buffer[self._layer(layer_id)], self.dtype)",
    "return as_numbers(self.v_buffer[self._layer(layer_id) - 1], self.dtype)",
    check="memory.store_reads_back",
    defect="values are read from the layer before",
    says="values of layer",
)
pool(
    "ForeignLayersAccepted",
    "pools.py",
    "if place < 0 or place >= self.layer_num:",
    "if place >= self.layer_num:",
    check="memory.foreign_layer_is_refused",
    defect="a layer before start_layer becomes a negative index, and another layer is overwritten",
    says="took layer",
)
pool(
    "ValuesStoredAsKeys",
    "pools.py",
    "self._write(self.v_buffer[place], loc, as_stored(cache_v, self.dtype, v_scale))",
    "self._write(self.v_buffer[place], loc, as_stored(cache_k[..., : self.v_head_dim], self.dtype, v_scale))",
    check="memory.store_reads_back",
    defect="the keys are stored in the value buffer as well",
    says="values of layer",
)
pool(
    "EveryLayerIsTheFirst",
    "pools.py",
    "self._write(self.k_buffer[place], loc",
    "self._write(self.k_buffer[0], loc",
    check="memory.store_reads_back",
    defect="the keys of all layers are written to the buffer of the first",
    says="keys of layer",
)
pool(
    "BufferWithoutPaddingPage",
    "rows.py",
    "slots = pool.size + pool.page_size",
    "slots = pool.size",
    check="memory.store_reads_back",
    defect="size rows are allocated, without the padding page",
    says="rows; slots 0 to",
)
pool(
    "OneRowShort",
    "rows.py",
    "slots = pool.size + pool.page_size",
    "slots = pool.size + pool.page_size - 1",
    check="memory.store_reads_back",
    defect="one row too few is allocated: the last slot lies outside",
    says="rows; slots 0 to",
)
pool(
    "SharedBuffer",
    "pools.py",
    "self.v_buffer = allocate(self, self.head_num, self.v_head_dim)",
    "self.v_buffer = self.k_buffer if self.v_head_dim == self.head_dim else"
    " allocate(self, self.head_num, self.v_head_dim)",
    check="memory.store_reads_back",
    defect="keys and values share one buffer",
    says="keys of layer",
)
pool(
    "FilledLate",
    "pools.py",
    "self.v_buffer = allocate(self, self.head_num, self.v_head_dim)",
    "self.v_buffer = allocate(self, self.head_num, self.v_head_dim); late = self.v_buffer[-1];"
    " sleep = __import__('time').sleep; __import__('threading').Thread("
    "target=lambda: [late.zero_() is sleep(0.001) for _ in range(3000)], daemon=True).start()",
    check="memory.buffers_do_not_overlap",
    defect="a side stream still zeroes a buffer when the pool has been handed out",
    says="nothing was called on it",
)
pool(
    "UninitialisedBuffers",
    "rows.py",
    "torch.zeros((slots, *row), dtype=storage(pool.dtype), device=pool.device)",
    "torch.full((slots, *row), 255 if storage(pool.dtype) == torch.uint8 else float('nan'),"
    " dtype=storage(pool.dtype), device=pool.device)",
    check="memory.fresh_buffers_are_zero",
    defect="buffers are allocated without being zeroed",
    says="not zero",
)
pool(
    "MissingScale",
    "rows.py",
    "        if scale is not None:\n            rows = rows / scale\n",
    "",
    check="memory.store_casts_and_scales",
    defect="k_scale and v_scale are ignored on storing",
    says="with a scale of",
)
pool(
    "ScaleMultiplied",
    "rows.py",
    "rows = rows / scale",
    "rows = rows * scale",
    check="memory.store_casts_and_scales",
    defect="values are multiplied by their scale instead of divided",
    says="with a scale of",
)
pool(
    "KeyScaleForValues",
    "pools.py",
    "as_stored(cache_v, self.dtype, v_scale)",
    "as_stored(cache_v, self.dtype, None if v_scale is None else 0.5)",
    check="memory.store_casts_and_scales",
    defect="values are scaled by a constant that belongs to another tensor",
    says="values of layer",
)
pool(
    "TruncatedCast",
    "rows.py",
    "        rows = rows.to(dtype)\n",
    "        rows = (rows.view(torch.int32) & -65536).view(torch.float32).to(dtype)\n",
    check="memory.store_casts_and_scales",
    defect="float32 is cut to bfloat16 instead of rounded to nearest",
    says="storing float16 values",
)
pool(
    "NoSaturation",
    "rows.py",
    "rows = rows.clamp(-largest, largest)",
    "rows = torch.where(rows.abs() > largest, float('nan'), rows)",
    check="memory.store_casts_and_scales",
    defect="what lies beyond the range of fp8 becomes NaN",
    says="storing numbers up to",
)
pool(
    "ScalesInPlace",
    "rows.py",
    "        rows = rows.float()\n        if scale is not None:\n            rows = rows / scale\n",
    "        if scale is not None:\n            rows.div_(scale)\n        rows = rows.float()\n",
    check="memory.store_casts_and_scales",
    defect="the caller's keys are divided in place",
    says="changed the keys",
)
pool(
    "StridesIgnored",
    "rows.py",
    "return rows.contiguous().view(storage(dtype))",
    "return torch.as_strided(rows, rows.shape, torch.empty(rows.shape).stride(),"
    " rows.storage_offset()).clone().view(storage(dtype))",
    check="memory.stores_of_every_form_read_back",
    defect="the kernel takes its input for contiguous",
    says="every second token",
)
pool(
    "LocStridesIgnored",
    "pools.py",
    "buffer[loc.reshape(-1)] =",
    "buffer[torch.as_strided(loc, loc.shape, (1,)).long()] =",
    check="memory.stores_of_every_form_read_back",
    defect="the kernel takes loc for contiguous",
    says="strided loc",
)
pool(
    "EmptyStoreWritesTheLastSlot",
    "pools.py",
    "buffer[loc.reshape(-1)] =",
    "if loc.numel() == 0:\n            buffer[-1] = 0\n        buffer[loc.reshape(-1)] =",
    check="memory.stores_of_every_form_read_back",
    defect="a launch for no tokens still writes one row",
    says="storing nothing",
)
pool(
    "PaddingMasksAll",
    "pools.py",
    "buffer[loc.reshape(-1)] =",
    "loc = loc if bool((loc > 0).all()) else torch.zeros_like(loc)\n        buffer[loc.reshape(-1)] =",
    check="memory.stores_of_every_form_read_back",
    defect="one padded token in a batch sends all its tokens to slot 0",
    says="padded",
)
pool(
    "OverrideIgnored",
    "pools.py",
    "place = self._layer(layer.layer_id if layer_id_override is None else layer_id_override)\n"
    "        self._write(self.k_buffer",
    "place = self._layer(layer.layer_id)\n        self._write(self.k_buffer",
    check="memory.stores_of_every_form_read_back",
    defect="layer_id_override is ignored",
    says="layer_id_override",
)
pool(
    "SizeInKiB",
    "pools.py",
    "return sum(k.nbytes for k in self.k_buffer), sum(v.nbytes for v in self.v_buffer)",
    "return sum(k.nbytes for k in self.k_buffer) // 1024, sum(v.nbytes for v in self.v_buffer) // 1024",
    check="memory.stated_size_is_what_is_allocated",
    defect="the size is stated in KiB",
    says="bytes",
)
pool(
    "SizeOfKeysOnly",
    "pools.py",
    "sum(v.nbytes for v in self.v_buffer)",
    "0",
    check="memory.stated_size_is_what_is_allocated",
    defect="the value buffers are not counted",
    says="the buffers have",
)
pool(
    "IndexerNotCounted",
    "dsa_pool.py",
    "return super().get_kv_size_bytes() + sum(keys.nbytes for keys in self.index_k_with_scale_buffer)",
    "return super().get_kv_size_bytes()",
    check="memory.stated_size_is_what_is_allocated",
    defect="the indexer's buffers are not counted",
    says="the buffers have",
)
pool(
    "PageLengthIsRowLength",
    "pools.py",
    "buffer[0].nbytes * self.page_size",
    "buffer[0].nbytes",
    check="memory.buffer_infos_describe_the_buffers",
    defect="the bytes of a row are listed as those of a page",
    says="a page of buffer",
)
pool(
    "AddressesInterleaved",
    "pools.py",
    "return self.k_buffer + self.v_buffer",
    "return [buffer for pair in zip(self.k_buffer, self.v_buffer) for buffer in pair]",
    check="memory.buffer_infos_describe_the_buffers",
    defect="keys and values are listed layer by layer, the transfer engine expects all keys first",
    says="starts at",
)
pool(
    "MoveRowByRow",
    "pools.py",
    "buffer[tgt_loc] = buffer[src_loc].clone()",
    "for t, s in zip(tgt_loc.tolist(), src_loc.tolist()):\n                buffer[t] = buffer[s]",
    check="memory.move_is_as_if_all_were_read_first",
    defect="rows are moved one after another, so overlapping moves read what was just written",
    says="after moving",
)
pool(
    "MoveForgetsValues",
    "pools.py",
    "        for buffer in self._buffers():\n            buffer[tgt_loc]",
    "        for buffer in self._buffers()[: self.layer_num]:\n            buffer[tgt_loc]",
    check="memory.move_is_as_if_all_were_read_first",
    defect="only the keys are moved",
    says="values of layer",
)
pool(
    "MoveForgetsIndexer",
    "dsa_pool.py",
    "        self.index_key_cache.move(tgt_loc, src_loc)\n",
    "",
    check="memory.move_is_as_if_all_were_read_first",
    defect="the indexer's keys stay where they were",
    says="indexer keys of layer",
)
pool(
    "CopyOfOneLayer",
    "pools.py",
    'return [buffer[indices].to("cpu") for buffer in self._buffers()]',
    'return [self._buffers()[0][indices].to("cpu") if b.shape == self._buffers()[0].shape else b[indices]'
    " for b in self._buffers()]",
    check="memory.cpu_copy_comes_back",
    defect="the first layer is copied in place of every layer",
    says="to the CPU and back",
)
pool(
    "LoadSorted",
    "pools.py",
    "buffer[indices] = rows.to(buffer.device)",
    "buffer[indices.sort().values] = rows.to(buffer.device)",
    check="memory.cpu_copy_comes_back",
    defect="rows are loaded into the slots in ascending order instead of in the order given",
    says="to the CPU and back",
)
pool(
    "RotatedPartFirst",
    "pools.py",
    "rows = torch.cat([part.reshape(loc.numel(), 1, -1) for part in parts], dim=-1)",
    "rows = torch.cat([part.reshape(loc.numel(), 1, -1) for part in parts[::-1]], dim=-1)",
    check="memory.stores_of_every_form_read_back",
    defect="the rotated part is stored before the latent part",
    says="in two parts",
)
pool(
    "ValuesAreWholeRows",
    "pools.py",
    "return self.get_key_buffer(layer_id)[..., : self.kv_lora_rank]",
    "return self.get_key_buffer(layer_id)",
    check="memory.stores_of_every_form_read_back",
    defect="the values of MLA hold the rotated part as well",
    says="get_value_buffer()",
)
pool(
    "ScalesBesideKeys",
    "dsa_pool.py",
    "scale_at = self.page_size * key.numel() + token * scale.numel()",
    "scale_at = (token + 1) * key.numel()",
    check="memory.dsa_index_keys_read_back",
    defect="each scale is written behind its own key, not behind all keys of the page",
    says="indexer",
)
pool(
    "ValuesByTheirShape",
    "pools.py",
    "        self.v_buffer = allocate(self, self.head_num, self.v_head_dim)\n",
    "        key = (self.size, self.head_num, self.v_head_dim, self.dtype, self.layer_num)\n"
    "        made = ReferenceMHAPool.__dict__.get('_made', {})\n"
    "        self.v_buffer = made[key] if key in made else allocate(self, self.head_num, self.v_head_dim)\n"
    "        ReferenceMHAPool._made = {**made, key: self.v_buffer}\n",
    check="memory.buffers_do_not_overlap",
    defect="values of pools of one shape lie in the same memory",
    says="another pool of the same shape",
)
pool(
    "WindowKeysAsThePlainOnes",
    "pools.py",
    "    def _create_buffers(self) -> None:\n        self.k_buffer",
    "    def __init__(self, *args: Any, **kwargs: Any) -> None:\n"
    "        kwargs.pop('swa_head_dim', None)\n"
    "        super().__init__(*args, **kwargs)\n\n"
    "    def _create_buffers(self) -> None:\n        self.k_buffer",
    check="memory.stores_of_every_form_read_back",
    defect="keys of the layers with a window are as wide as those of the others",
    says="they come as",
)
pool(
    "OverrideOfOneAtLeast",
    "pools.py",
    "        self.set_kv_buffer(layer, loc, rows, None, layer_id_override)\n",
    "        asked = layer_id_override if layer_id_override is None else max(1, layer_id_override)\n"
    "        self.set_kv_buffer(layer, loc, rows, None, asked)\n",
    check="memory.stores_of_every_form_read_back",
    defect="rows in two parts go to layer 1 where layer 0 is asked for",
    says="layer_id_override=0",
)
