"""Healthy, third set: unusual, and right by the contract. Nothing may fail on them."""

from __future__ import annotations

from typing import Any

from broken import Table, at

memory = Table("healthy 3", "memory", "pools.py")
kernels = Table("healthy 3", "kernels graphs", "attention.py")
answers = Table("healthy 3", "contract", "platform.py")

WRITE = "        buffer[loc.reshape(-1)] = rows.reshape(-1, *buffer.shape[1:])\n"


def healthy(table: Table, name: str, what: str, *words: Any, levels: str = "") -> None:
    table(name, what, *words, levels=levels, healthy=True)


healthy(
    memory,
    "PaddingIsNotWritten",
    "rows for the padding page are dropped instead of written",
    WRITE,
    "        where = loc.reshape(-1)\n"
    "        real = where >= self.page_size\n"
    "        buffer[where[real]] = rows.reshape(-1, *buffer.shape[1:])[real]\n",
    levels="memory graphs",
)
healthy(
    memory,
    "LayersInOneTensor",
    "all layers lie in one allocation, and each buffer is a slice of it",
    at(
        "rows.py",
        "    return [\n"
        "        torch.zeros((slots, *row), dtype=storage(pool.dtype), device=pool.device)  # type: ignore[attr-defined]\n"
        "        for _ in range(pool.layer_num)  # type: ignore[attr-defined]\n"
        "    ]\n",
        "    whole = torch.zeros((pool.layer_num, slots, *row), dtype=storage(pool.dtype), device=pool.device)\n"
        "    return list(whole.unbind(0))\n",
    ),
)
healthy(
    memory,
    "PagesFromTheEnd",
    "the allocator lends its last pages first, where it is not asked to sort",
    at(
        "allocator.py",
        "        pages, self._free = self._free[:count], self._free[count:]\n",
        "        if self.need_sort or not count:\n"
        "            pages, self._free = self._free[:count], self._free[count:]\n"
        "        else:\n"
        "            pages, self._free = self._free[: -count - 1 : -1], self._free[:-count]\n",
    ),
    levels="memory",
)
healthy(
    memory,
    "NoSearchForDoubleFrees",
    "a page that is freed twice is not looked for unless debug mode asks for it",
    at(
        "allocator.py",
        "        twice = [page for page in pages if page not in self._lent]\n"
        "        if twice or len(set(pages)) < len(pages):\n",
        "        twice = [page for page in pages if page not in self._lent]\n"
        "        if self.debug_mode and (twice or len(set(pages)) < len(pages)):\n",
    ),
)
healthy(
    memory,
    "DecodeSlotsInInt32",
    "decode slots are 32-bit whole numbers, as those of SGLang's allocator for NPUs",
    at(
        "allocator.py",
        "        after = seq_lens_cpu.tolist()\n        return self._grow([n - 1 for n in after], after, last_loc.tolist())\n",
        "        after = seq_lens_cpu.tolist()\n"
        "        slots = self._grow([n - 1 for n in after], after, last_loc.tolist())\n"
        "        return None if slots is None else slots.to(torch.int32)\n",
    ),
)
healthy(
    memory,
    "CopiesInOneTensor",
    "what is set aside on the host is one tensor of bytes",
    '        return [buffer[indices].to("cpu") for buffer in self._buffers()]\n',
    '        rows = [buffer[indices].to("cpu").contiguous() for buffer in self._buffers()]\n'
    "        return torch.cat([one.view(torch.uint8).reshape(len(indices), -1) for one in rows], dim=1), len(indices)\n",
    "        if len(kv_cache_cpu[0]) != indices.numel():\n",
    "        packed, held = kv_cache_cpu\n        if held != indices.numel():\n",
    '                f"{len(kv_cache_cpu[0])} slots were copied, and {indices.numel()} are to be loaded"\n',
    '                f"{held} slots were copied, and {indices.numel()} are to be loaded"\n',
    "        for buffer, rows in zip(self._buffers(), kv_cache_cpu, strict=True):\n"
    "            buffer[indices] = rows.to(buffer.device)\n",
    "        at = 0\n"
    "        for buffer in self._buffers():\n"
    "            width = buffer[0].nbytes\n"
    "            rows = packed[:, at : at + width].contiguous().view(buffer.dtype)\n"
    "            buffer[indices] = rows.reshape(held, *buffer.shape[1:])\n"
    "            at += width\n",
)
healthy(
    kernels,
    "AnswersAViewOfAPaddedOutput",
    "the output's rows are padded to whole blocks of heads, and the answer is a slice of it",
    "        return out.to(q.dtype).flatten(1)\n",
    "        flat = out.to(q.dtype).flatten(1)\n"
    "        wide = flat.new_zeros(flat.shape[0], flat.shape[1] + 64)\n"
    "        wide[:, : flat.shape[1]] = flat\n"
    "        return wide[:, : flat.shape[1]].contiguous()\n",
)
healthy(
    kernels,
    "MetadataOnceAStep",
    "lengths are read once a step, in init_forward_metadata, and again where nothing was prepared",
    "    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:\n",
    "    def init_forward_metadata_in_graph(self, forward_batch: Any) -> None:\n"
    "        self._step = (forward_batch, forward_batch.seq_lens.tolist())\n\n"
    "    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:\n",
    "        news = [1] * len(lengths)\n",
    "        step = self.__dict__.get('_step')\n"
    "        if step is not None and step[0] is forward_batch:\n"
    "            lengths = step[1]\n"
    "        news = [1] * len(lengths)\n",
)
healthy(
    kernels,
    "SplitsOfKeys",
    "keys are taken in splits of 128 that are merged by their sums of exponentials",
    "        weights = torch.softmax(scores, dim=-1)\n",
    "        lse = torch.stack([part.logsumexp(-1) for part in scores.split(128, -1)]).logsumexp(0)\n"
    "        weights = torch.exp(scores - lse[..., None])\n",
)
healthy(
    kernels,
    "GraphsOfFewSizes",
    "it captures every second size, and runs the others eagerly",
    at(
        "graph_runner.py",
        '    """Buckets, padding and static inputs are core\'s."""\n',
        '    """Buckets, padding and static inputs are core\'s."""\n\n'
        "    def _batch_sizes(self) -> list[int]:\n"
        "        return super()._batch_sizes()[::2]\n\n"
        "    def can_run_graph(self, forward_batch: Any) -> bool:\n"
        "        return super().can_run_graph(forward_batch) and forward_batch.batch_size in self.capture_bs\n",
    ),
    levels="graphs",
)
healthy(
    kernels,
    "CapturesWhenFirstAsked",
    "a bucket is captured when the first batch for it comes",
    at(
        "graph_runner.py",
        '    """Buckets, padding and static inputs are core\'s."""\n',
        '    """Buckets, padding and static inputs are core\'s."""\n\n'
        "    def capture(self) -> None:\n"
        "        self.inputs.clear()\n"
        "        self.captured.clear()\n\n"
        "    def execute(self, forward_batch: Any, pp_proxy_tensors: Any = None) -> Any:\n"
        "        bucket = next(size for size in self.capture_bs if size >= self._most_rows(forward_batch))\n"
        "        if bucket not in self.captured:\n"
        "            every, self.capture_bs = self.capture_bs, [bucket]\n"
        "            kept = dict(self.captured)\n"
        "            super().capture()\n"
        "            self.captured.update(kept)\n"
        "            self.capture_bs = every\n"
        "        return super().execute(forward_batch, pp_proxy_tensors)\n",
    ),
    levels="graphs",
)
healthy(
    kernels,
    "NoSinksAndNoCap",
    "sinks, caps and encoders are not declared, and refused with words",
    at("platform.py", "_LEFT_OUT = (", '_LEFT_OUT = ("logit_cap", "sinks", "encoder", '),
    "        if save_kv_cache and k is not None:\n",
    "        encoder = getattr(layer.attn_type, 'value', None) == 'encoder_only'\n"
    "        if sinks is not None or layer.logit_cap or encoder:\n"
    "            raise NotImplementedError(\n"
    "                'this device computes no sinks, no logit cap and no encoder attention: use another attention backend'\n"
    "            )\n"
    "        if save_kv_cache and k is not None:\n",
    levels="kernels contract",
)
healthy(
    kernels,
    "PagesOf64Alone",
    "it serves pages of 64 tokens, and bfloat16",
    at("platform.py", "    supported_page_sizes = (1, 4, 16)\n", "    supported_page_sizes = (64,)\n"),
    at(
        "platform.py",
        '    supported_kv_dtypes = ("float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2")\n',
        '    supported_kv_dtypes = ("bfloat16",)\n',
    ),
    at("platform.py", "_LEFT_OUT = (", '_LEFT_OUT = ("fp8_kv", '),
    levels="memory kernels graphs",
)
healthy(
    answers,
    "CapabilitiesByTheDevice",
    "capabilities are a property, made anew at each question",
    "    capabilities = PlatformCapabilities(graph_capture=True, piecewise_graph=True, fp8=True)\n",
    "    @property\n"
    "    def capabilities(self) -> PlatformCapabilities:  # type: ignore[override]\n"
    "        return PlatformCapabilities(graph_capture=True, piecewise_graph=True, fp8=True)\n",
    levels="contract graphs memory",
)
healthy(
    answers,
    "BuffersWhenFirstUsed",
    "the attention backend allocates its workspace at the first step that needs it",
    at(
        "attention.py",
        "        out = torch.empty(query.shape[0], layer.tp_q_head_num, layer.v_head_dim)\n",
        "        need = query.shape[0] * layer.tp_q_head_num * layer.v_head_dim\n"
        "        if self.__dict__.get('_work') is None or self._work.numel() < need:\n"
        "            self._work = torch.empty(need)\n"
        "        out = self._work[:need].view(query.shape[0], layer.tp_q_head_num, layer.v_head_dim)\n",
    ),
    at(
        "attention.py",
        "        return out.to(q.dtype).flatten(1)\n",
        "        return out.to(q.dtype, copy=True).flatten(1)\n",
    ),
    levels="kernels graphs",
)
