"""What is slow by a factor that serving feels, and right otherwise."""

from __future__ import annotations

from broken import Table, at

speed = Table("speed 3", "memory", "allocator.py")

speed(
    "LentPagesInAList",
    "lent pages are kept in a list, in which each freed page is searched",
    "        self._lent: set[int] = set()\n",
    "        self._lent: Any = _List()\n",
    "class ReferencePagedAllocator(PagedTokenToKVPoolAllocator):\n",
    "class _List(list[int]):\n"
    "    def difference_update(self, pages: Any) -> None:\n"
    "        for page in pages:\n"
    "            self.remove(page)\n\n"
    "    def update(self, pages: Any) -> None:\n"
    "        self.extend(pages)\n\n\n"
    "class ReferencePagedAllocator(PagedTokenToKVPoolAllocator):\n",
    "        self._free, self._lent = list(free), set(lent)\n",
    "        self._free, self._lent = list(free), _List(lent)\n",
)
speed(
    "DecodeLooksAtEveryPage",
    "each decode step looks at every free page",
    "        after = seq_lens_cpu.tolist()\n",
    "        after = seq_lens_cpu.tolist()\n"
    "        assert all(page > 0 for _ in range(8) for page in self._free)\n",
)
speed(
    "StoresCopyTheBuffer",
    "each store copies the layer's whole buffer",
    at(
        "pools.py",
        "        buffer[loc.reshape(-1)] = rows.reshape(-1, *buffer.shape[1:])\n",
        "        whole = buffer.clone()\n"
        "        whole[loc.reshape(-1)] = rows.reshape(-1, *buffer.shape[1:])\n"
        "        buffer.copy_(whole)\n",
    ),
)
speed(
    "StoresRowByRow",
    "rows are stored one after another, each by a call of its own",
    at(
        "pools.py",
        "        buffer[loc.reshape(-1)] = rows.reshape(-1, *buffer.shape[1:])\n",
        "        for at, row in zip(loc.reshape(-1).tolist(), rows.reshape(-1, *buffer.shape[1:])):\n"
        "            buffer[at] = row\n",
    ),
)
speed(
    "MovesTheWholeBuffer",
    "a move of a few rows copies every layer's whole buffer",
    at(
        "pools.py",
        "            buffer[tgt_loc] = buffer[src_loc].clone()\n",
        "            whole = buffer.clone()\n            buffer[tgt_loc] = whole[src_loc]\n            del whole\n",
    ),
)
speed(
    "DecodeConvertsTheCache",
    "decode converts the layer's whole cache to float32 at each step",
    at(
        "attention.py",
        "        keys = self.token_to_kv_pool.get_key_buffer(layer.layer_id)\n",
        "        keys = self.token_to_kv_pool.get_key_buffer(layer.layer_id).float()\n",
    ),
    levels="kernels",
)
speed(
    "DecodePadsToTheLongest",
    "each request of a decode batch reads as many keys as the longest",
    at(
        "attention.py",
        "            key = _scaled(keys[slots], layer.k_scale)\n",
        "            for _ in range(max(lengths) // max(length, 1)):\n"
        "                key = _scaled(keys[slots], layer.k_scale)\n"
        "            key = _scaled(keys[slots], layer.k_scale)\n",
    ),
    levels="kernels",
)
speed(
    "NormRowByRow",
    "the norm is taken row by row",
    at(
        "ops.py",
        "    variance = y.pow(2).mean(dim=-1, keepdim=True)\n",
        "    rows = y.reshape(-1, y.shape[-1])\n"
        "    variance = torch.stack([row.pow(2).mean(dim=-1, keepdim=True) for row in rows]) if len(rows) else y[..., :1]\n"
        "    variance = variance.reshape(*y.shape[:-1], 1)\n",
    ),
    levels="kernels",
)
speed(
    "SynchronizeWaitsTwentyMilliseconds",
    "synchronize polls every 20 ms",
    at(
        "device.py",
        "    def get_torch_profiler_activity_str(self) -> str:\n",
        "    def synchronize(self) -> None:\n        import time\n\n        time.sleep(0.02)\n\n"
        "    def get_torch_profiler_activity_str(self) -> str:\n",
    ),
    levels="contract graphs",
)
speed(
    "MemoryAskedOfAProgram",
    "free memory is asked of a program, which takes a second",
    at(
        "device.py",
        "        return _available(), self.get_device_total_memory()\n",
        "        import subprocess\n\n        subprocess.run(['sleep', '1'], check=True)\n"
        "        return _available(), self.get_device_total_memory()\n",
    ),
    levels="contract",
)
