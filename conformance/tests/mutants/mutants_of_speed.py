"""Mutants of speed: right answers, in a time that grows with what it must not grow with."""

from __future__ import annotations

from functools import partial

from patched_reference import patch, patched

__getattr__ = patched

slow = partial(patch, __name__)

slow(
    "FreeSearchesTheList",
    "allocator.py",
    "        self._lent.difference_update(pages)\n",
    "        for page in pages:\n            if pages.index(page) < 0 or page in self._free:\n"
    "                raise PlatformError(str(page))\n"
    "        self._lent.difference_update(pages)\n",
    check="memory.allocator_time_grows_with_the_pages",
    defect="every page that is freed is looked for in a list",
    says="times the pages",
)
slow(
    "PagesTakenOneByOne",
    "allocator.py",
    "                    slot = pages.pop(0) * self.page_size\n",
    "                    slot = pages.pop(0) * self.page_size\n                    sorted(pages)\n",
    check="memory.allocator_time_grows_with_the_pages",
    defect="the pages that are left are sorted again for each request",
    says="times the requests",
)
slow(
    "SlotsComputedInPython",
    "allocator.py",
    "        return torch.tensor(values, dtype=torch.int64, device=self.device)",
    "        return torch.stack([torch.tensor(value, dtype=torch.int64) for value in values]) if values else"
    " torch.empty(0, dtype=torch.int64)",
    check="memory.allocator_is_not_slower_than_torch",
    defect="a tensor is made of each slot",
    says="times as long",
)
slow(
    "StoresRowByRow",
    "pools.py",
    "        buffer[loc.reshape(-1)] = rows.reshape(-1, *buffer.shape[1:])\n",
    "        for slot, row in zip(loc.reshape(-1), rows.reshape(-1, *buffer.shape[1:]), strict=True):\n"
    "            buffer[slot] = row\n",
    check="memory.pool_time_grows_with_the_slots",
    defect="rows are stored one by one",
    says="times as long",
)
slow(
    "MovesTheWholeBuffer",
    "pools.py",
    "            buffer[tgt_loc] = buffer[src_loc].clone()\n",
    "            buffer[tgt_loc] = buffer.clone()[src_loc]\n",
    check="memory.pool_time_grows_with_the_slots",
    defect="the whole buffer is copied to move some rows",
    says="times as long",
)
slow(
    "ComesBackByRows",
    "pools.py",
    "            buffer[indices] = rows.to(buffer.device)\n",
    "            for at in range(len(indices)):\n                buffer[indices[at]] = rows[at].to(buffer.device)\n",
    check="memory.pool_time_grows_with_the_slots",
    defect="a request that comes back from the host is copied row by row",
    says="load_cpu_copy() of 4096 slots",
)
slow(
    "CopiesThePoolAtEachStep",
    "attention.py",
    "        keys = self.token_to_kv_pool.get_key_buffer(layer.layer_id)\n",
    "        keys = self.token_to_kv_pool.get_key_buffer(layer.layer_id).clone()\n",
    check="kernels.decode_time_grows_with_the_context",
    defect="all keys of the pool are copied at each step",
    says="just large enough",
)
slow(
    "PrefillTokenByToken",
    "attention.py",
    "            out[first : first + new] = _attend(query[first : first + new], key, value, layer, sinks)\n",
    "            for at in range(new):\n                seen = length - new + at + 1\n"
    "                for _ in range(1 if new < 65 else new // 4):\n"
    "                    out[first + at] = _attend(query[first + at : first + at + 1], key[:seen], value[:seen],"
    " layer, sinks)[0]\n",
    check="kernels.extend_time_grows_with_the_tokens",
    defect="each new token is computed again for every token before it",
    says="new tokens",
)
slow(
    "WaitsAtEachStep",
    "attention.py",
    "        query = q.reshape(-1, layer.tp_q_head_num, layer.qk_head_dim).float()\n",
    "        query = q.reshape(-1, layer.tp_q_head_num, layer.qk_head_dim).float()\n"
    "        __import__('time').sleep(0.02)\n",
    check="kernels.attention_is_not_slower_than_torch",
    defect="each step waits for the device with a fixed pause",
    says="times as long",
)
slow(
    "CapturesAtEachReplay",
    "graph_runner.py",
    "                into.copy_(now)\n",
    "                into.copy_(now)\n            for _ in range(7):\n                self.run()\n",
    check="graphs.replay_is_not_slower_than_eager",
    defect="a replay runs the model several times over",
    says="a replay of",
)
slow(
    "RowsByAProduct",
    "ops.py",
    "    return (gate * torch.sigmoid(gate) * up).to(x.dtype)\n",
    "    return (torch.eye(len(gate)) @ (gate * torch.sigmoid(gate) * up)).to(x.dtype)\n",
    check="kernels.op_time_grows_with_the_rows",
    defect="rows are put in their places by a product with a matrix of ones and zeros, rows by rows large",
    says="times the rows",
)
slow(
    "ClearWaits",
    "allocator.py",
    "    def clear(self) -> None:\n",
    "    def clear(self) -> None:\n        import time\n\n        time.sleep(0.5)\n",
    check="memory.allocator_is_not_slower_than_torch",
    defect="clear() waits",
    says="clear()",
)
slow(
    "DecodeCountsFreePages",
    "allocator.py",
    "        after = seq_lens_cpu.tolist()\n",
    "        after = seq_lens_cpu.tolist()\n        assert all(page > 0 for _ in range(4) for page in self._free)\n",
    check="memory.allocator_time_grows_with_the_pages",
    defect="each decode looks at all free pages, four times",
    says="free pages takes",
)
slow(
    "StoreCopiesTheBuffer",
    "pools.py",
    "        buffer[loc.reshape(-1)] = rows.reshape(-1, *buffer.shape[1:])\n",
    "        whole = buffer.clone()\n        whole[loc.reshape(-1)] = rows.reshape(-1, *buffer.shape[1:])\n"
    "        buffer.copy_(whole)\n",
    check="memory.pool_time_grows_with_the_slots",
    defect="each store copies the layer's whole buffer",
    says="slots",
)
slow(
    "ShortRowsOneByOne",
    "ops.py",
    "    variance = y.pow(2).mean(dim=-1, keepdim=True)\n",
    "    rows = y.reshape(-1, y.shape[-1])\n"
    "    variance = torch.stack([row.pow(2).mean(dim=-1, keepdim=True) for row in rows]) if len(rows) else y[..., :1]\n"
    "    variance = variance.reshape(*y.shape[:-1], 1)\n",
    check="kernels.op_time_grows_with_the_rows",
    defect="the norm is taken row by row",
    says="rows of 64",
)
slow(
    "DecodeReadsAllAsTheLongest",
    "attention.py",
    "            value = _scaled(values[slots], layer.v_scale)\n",
    "            value = _scaled(values[slots], layer.v_scale)\n"
    "            padded = self.req_to_token_pool.req_to_token[row, : max(lengths)].long()\n"
    "            _scaled(keys[padded], layer.k_scale), _scaled(values[padded], layer.v_scale)\n",
    check="kernels.decode_time_grows_with_the_context",
    defect="every request of a decode batch reads as many keys and values as the longest has",
    says="one batch after the other",
)
slow(
    "LooksThroughTheTable",
    "ops.py",
    "    cos, sin = op.cos_sin_cache[positions].float().chunk(2, dim=-1)\n",
    "    largest = op.cos_sin_cache.float().abs().max()\n"
    "    cos, sin = (op.cos_sin_cache[positions].float() + 0 * largest).chunk(2, dim=-1)\n",
    check="kernels.op_time_grows_with_the_rows",
    defect="the largest number of the whole table is looked for in each call",
    says="with a table of 131072 positions",
)
