"""Healthy, eighth set: unusual, and right by the contract. Nothing may fail on them."""

from __future__ import annotations

from typing import Any

from broken import Table, at
from of_third_lifecycle import HOST_MEMORY, method

parts = Table("healthy 8", "memory kernels graphs", "attention.py")

SUM = "        dist.all_reduce(input_, group=self.group)\n"
SORT = "        if self.need_sort:\n            self._free.sort()\n"


def well(name: str, what: str, *words: Any, levels: str = "") -> None:
    parts(name, what, *words, levels=levels, healthy=True)


well(
    "LowestPageFirst",
    "the lowest free page is lent first, whether pages are to be sorted or not",
    at("allocator.py", SORT, "        self._free.sort()\n"),
    levels="memory",
)
well(
    "AttendsInFloat64",
    "scores, weights and sums of attention are of float64, and the answer has the query's type",
    '    scores = torch.einsum("ihd,jhd->hij", q, k) * layer.scaling\n',
    "    q, k, v = q.double(), k.double(), v.double()\n"
    '    scores = torch.einsum("ihd,jhd->hij", q, k) * layer.scaling\n',
    "        sink = sinks.float().reshape(heads, 1, 1).expand(heads, m, 1)\n",
    "        sink = sinks.double().reshape(heads, 1, 1).expand(heads, m, 1)\n",
    levels="kernels graphs",
)
well(
    "SumsAtTheFirstRank",
    "parts are gathered, added up by the first rank, and told to the others",
    at(
        "communicator.py",
        SUM,
        "        parts = [torch.empty_like(input_) for _ in range(self.world_size)]\n"
        "        dist.all_gather(parts, input_, group=self.group)\n"
        "        if self.rank == 0:\n"
        "            wide = torch.float32 if input_.dtype in (torch.float16, torch.bfloat16) else input_.dtype\n"
        "            input_.copy_(torch.stack(parts).to(wide).sum(0))\n"
        "        dist.broadcast(input_, dist.get_global_rank(self.group, 0), group=self.group)\n",
    ),
    levels="distributed",
)
well(
    "MaskByATableOfBytes",
    "a grammar's mask is looked up byte by byte in a table of eight truths each",
    method(
        "    def get_token_bitmask_fn(self) -> Any:\n"
        "        import torch\n\n"
        "        table = torch.arange(256)[:, None] >> torch.arange(8) & 1 == 0\n\n"
        "        def apply(logits: Any, bitmask: Any) -> None:\n"
        "            forbidden = table[bitmask.contiguous().view(torch.uint8).int()].flatten(1)\n"
        "            forbidden = forbidden[:, : logits.shape[1]]\n"
        "            known = forbidden.shape[1]\n"
        "            logits[:, :known].masked_fill_(forbidden, float('-inf'))\n"
        "            logits[:, known:] = float('-inf')\n\n"
        "        return apply\n"
    ),
    levels="contract kernels",
)
well(
    "HostMemoryOnPages",
    "memory of the host begins at a multiple of 4,096 bytes, inside a larger allocation",
    method(
        HOST_MEMORY + "        import torch\n\n"
        "        class Own(HostMemory):\n"
        "            def allocate(self, shape: Any, dtype: Any) -> Any:\n"
        "                count = int(torch.Size(shape).numel()) * dtype.itemsize\n"
        "                memory = torch.empty(count + 4096, dtype=torch.uint8, pin_memory=self.pins)\n"
        "                start = -memory.data_ptr() % 4096\n"
        "                return memory[start : start + count].view(dtype).view(tuple(shape))\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
well(
    "E5m2IsRefused",
    "of types of eight bits e4m3 alone is declared, and a pool of e5m2 is refused in words",
    at("platform.py", '"float16", "float8_e4m3fn", "float8_e5m2")', '"float16", "float8_e4m3fn")'),
    at(
        "rows.py",
        "    slots = pool.size + pool.page_size  # type: ignore[attr-defined]\n",
        "    if pool.dtype == torch.float8_e5m2:  # type: ignore[attr-defined]\n"
        '        raise NotImplementedError("this device has no float8_e5m2: serve with --kv-cache-dtype fp8_e4m3")\n'
        "    slots = pool.size + pool.page_size  # type: ignore[attr-defined]\n",
    ),
    levels="contract memory kernels",
)
