"""Unusual platforms with which nothing is wrong: no check may fail on them."""

from broken import Edit, Table, at

healthy = Table("healthy", "memory kernels graphs")

_WRITE = "        buffer[loc.reshape(-1)] = rows.reshape(-1, *buffer.shape[1:])\n"
_BODY = '    """Buckets, padding and static inputs are core\'s."""\n'
_SLOTS = "            slots = self.req_to_token_pool.req_to_token[row, :length].long()\n"
_TAKE = "        pages, self._free = self._free[:count], self._free[count:]\n"


def well(name: str, what: str, *edits: Edit, levels: str = "") -> None:
    healthy(name, what, *edits, levels=levels, healthy=True)


well("PagesOf256", "pages of 64, 128 and 256", at("platform.py", "(1, 4, 16)", "(64, 128, 256)"))
well("OnlySlots", "pages of 1 only", at("platform.py", "(1, 4, 16)", "(1,)"))
well("LastPageFirst", "pages are lent from the last one down",
     at("allocator.py", "list(range(1, self.num_pages + 1))", "list(range(self.num_pages, 0, -1))"))  # fmt: skip
well("RandomPages", "pages are lent in an order of their own",
     at("allocator.py", "        self._lent: set[int] = set()\n",
        "        self._lent: set[int] = set()\n        self._free.sort(key=lambda page: page * 7919 % 104729)\n"))  # fmt: skip
well("FreedGoLast", "pages that come back are lent last",
     at("allocator.py", "        self._free = pages + self._free\n", "        self._free = self._free + pages\n"))  # fmt: skip
well("FewBuckets", "graphs of one and of two requests; all others are left to the model",
     at("graph_runner.py", _BODY, _BODY + "\n    def _batch_sizes(self):\n        return [1, 2]\n"))  # fmt: skip
well("BucketsOfItsOwn", "graphs of 3, 5 and 24 requests",
     at("graph_runner.py", _BODY, _BODY + "\n    def _batch_sizes(self):\n        return [3, 5, 24]\n"))  # fmt: skip
well("LargestBucketAlways", "every batch is padded to the largest bucket",
     at("graph_runner.py", _BODY, _BODY + "\n    def _batch_sizes(self):\n        return [max(super()._batch_sizes())]\n"))  # fmt: skip
well("InterleavedKeysAndValues", "keys and values of a layer are halves of one buffer; its infos name the halves",
     at("pools.py", "        self.k_buffer = allocate(self, self.head_num, self.head_dim)\n"
        "        self.v_buffer = allocate(self, self.head_num, self.v_head_dim)\n",
        "        both = allocate(self, self.head_num, self.head_dim + self.v_head_dim)\n"
        "        self.k_buffer = [one[..., : self.head_dim] for one in both]\n"
        "        self.v_buffer = [one[..., self.head_dim :] for one in both]\n"),
     at("pools.py", "    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:\n",
        "    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:\n"
        "        if hasattr(self, 'v_buffer'):\n"
        "            raise PlatformError('keys and values of this pool are interleaved', why='no transfer engine "
        "reads them')\n"))  # fmt: skip
well("PaddedHeads", "rows are padded to a multiple of 64 numbers, and the bytes of the padding are stated",
     at("pools.py", "        self.k_buffer = allocate(self, self.head_num, self.head_dim)\n"
        "        self.v_buffer = allocate(self, self.head_num, self.v_head_dim)\n",
        "        wide = -(-max(self.head_dim, self.v_head_dim) // 64) * 64\n"
        "        self._k, self._v = allocate(self, self.head_num, wide), allocate(self, self.head_num, wide)\n"
        "        self.k_buffer = [one[..., : self.head_dim] for one in self._k]\n"
        "        self.v_buffer = [one[..., : self.v_head_dim] for one in self._v]\n"),
     at("pools.py", "return sum(k.nbytes for k in self.k_buffer), sum(v.nbytes for v in self.v_buffer)",
        "return sum(k.nbytes for k in self._k), sum(v.nbytes for v in self._v)"),
     at("pools.py", "        buffers = self._buffers()\n",
        "        buffers = self._k + self._v if hasattr(self, '_k') else self._buffers()\n"))  # fmt: skip
well("HeadsFirst", "buffers are [heads, slots, dim] in memory; what is read is the usual view",
     at("pools.py", "        self.v_buffer = allocate(self, self.head_num, self.v_head_dim)\n",
        "        self.v_buffer = allocate(self, self.head_num, self.v_head_dim)\n"
        "        self.k_buffer = [k.transpose(0, 1).contiguous().transpose(0, 1) for k in self.k_buffer]\n"
        "        self.v_buffer = [v.transpose(0, 1).contiguous().transpose(0, 1) for v in self.v_buffer]\n"),
     at("pools.py", "    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:\n",
        "    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:\n"
        "        if hasattr(self, 'v_buffer'):\n"
        "            raise PlatformError('heads come first in this pool', why='a page is not one run of bytes')\n"))  # fmt: skip
well("OneAllocation", "all layers are views of one allocation",
     at("rows.py", "    return [\n        torch.zeros((slots, *row), dtype=storage(pool.dtype), device=pool.device)",
        "    return [\n        whole"),
     at("rows.py", "  # type: ignore[attr-defined]\n        for _ in range(pool.layer_num)",
        "  # type: ignore[attr-defined]\n        for whole in torch.zeros((pool.layer_num, slots, *row), "
        "dtype=storage(pool.dtype), device=pool.device)"))  # fmt: skip
well("TwoDtypes", "bfloat16 and float16 caches only, no 8-bit floats",
     at("platform.py", '("float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2")', '("bfloat16", "float16")'),
     at("platform.py", "piecewise_graph=True, fp8=True", "piecewise_graph=True"), at("platform.py", '_LEFT_OUT = (', '_LEFT_OUT = ("fp8_kv", '),
     at("pools.py", "class _Rows:\n", "class _Rows:\n    supported_dtypes = (torch.bfloat16, torch.float16)\n"))  # fmt: skip
well("NoGraphs", "no graphs", at("platform.py", "graph_capture=True, piecewise_graph=True, fp8=True", "fp8=True"),
     at("platform.py", "        return ReferenceGraphRunner\n", "        return None\n"), levels="contract graphs")  # fmt: skip
well("MhaOnly", "MHA pools only; the others are the host's",
     at("platform.py", "supported_kv_kinds = tuple(KINDS)", 'supported_kv_kinds = ("mha",)'),
     at("platform.py", '_LEFT_OUT = (', '_LEFT_OUT = ("mla", '),
     at("platform.py", "        module, _, name = FIXTURES[kv_pool_kind(kind)]",
        "        if kv_pool_kind(kind) != 'mha':\n            return None\n"
        "        module, _, name = FIXTURES[kv_pool_kind(kind)]"), levels="memory kernels contract")  # fmt: skip
well("OnlineSoftmax", "weights are computed by parts of 7 tokens with a running maximum, in another order of sums",
     at("attention.py", "        weights = torch.softmax(scores, dim=-1)\n",
        "        tops = [part.amax(-1, keepdim=True) for part in scores.split(7, dim=-1)]\n"
        "        top = torch.cat(tops, dim=-1).amax(-1, keepdim=True)\n"
        "        parts = [torch.exp(part - top) for part in scores.split(7, dim=-1)]\n"
        "        total = sum(part.sum(-1, keepdim=True) for part in reversed(parts))\n"
        "        weights = torch.cat(parts, dim=-1) / total\n"))  # fmt: skip
well("WeightsIn16Bits", "weights are rounded to the type of 16-bit queries before they meet the values, as kernels do",
     at("attention.py", '    return torch.einsum("hij,jhd->ihd", weights, v)',
        '    return torch.einsum("hij,jhd->ihd", weights.to(_TYPE[0]).float(), v)'),
     at("attention.py", "def _attend(\n", "_TYPE = [torch.float32]\n\n\ndef _attend(\n"),
     at("attention.py", _SLOTS, "            _TYPE[0] = q.dtype\n" + _SLOTS))  # fmt: skip
