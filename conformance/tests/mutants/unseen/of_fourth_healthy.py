"""Healthy, fourth set: unusual, and right by the contract. Nothing may fail on them."""

from __future__ import annotations

from typing import Any

from broken import Table, at, end
from of_fourth_allocators import ANSWER, DECODE, EXTEND, OWN
from of_third_lifecycle import HOST_MEMORY, method

parts = Table("healthy 4", "memory kernels graphs", "attention.py")

KEY = "            key = _scaled(keys[slots], layer.k_scale)\n"
VALUE = "            value = _scaled(values[slots], layer.v_scale)\n"
RUNNER = '    """Buckets, padding and static inputs are core\'s."""\n'


def well(name: str, what: str, *words: Any, levels: str = "") -> None:
    parts(name, what, *words, levels=levels, healthy=True)


well(
    "PaddedRowsAreEmpty",
    "rows that pad a graph's batch have no tokens at all",
    "    def forward_decode(\n",
    "    def get_cuda_graph_seq_len_fill_value(self) -> int:\n        return 0\n\n    def forward_decode(\n",
    levels="kernels graphs",
)
well(
    "TheNextBucketUp",
    "a batch as large as a bucket runs in the next one, where there is one",
    at(
        "graph_runner.py",
        RUNNER,
        RUNNER + "\n    def _most_rows(self, forward_batch: Any) -> int:\n"
        "        rows = super()._most_rows(forward_batch)\n"
        "        larger = [size for size in self.__dict__.get('capture_bs', []) if size > rows]\n"
        "        return larger[0] if larger else rows\n",
    ),
    levels="graphs",
)
well(
    "ScalesAsNumbers",
    "scales are read from k_scale_float and v_scale_float where the layer has them",
    KEY + VALUE,
    "            k_scale = layer.k_scale if layer.k_scale_float is None else layer.k_scale_float\n"
    "            v_scale = layer.v_scale if layer.v_scale_float is None else layer.v_scale_float\n"
    "            key = _scaled(keys[slots], k_scale)\n"
    "            value = _scaled(values[slots], v_scale)\n",
    levels="kernels graphs",
)
well(
    "CoresAllocatorWithOwnKernels",
    "the allocator is core's, with kernels that fill slots in loops",
    at("platform.py", ANSWER, OWN),
    end(
        "allocator.py",
        "class OwnKernels(PagedTokenToKVPoolAllocator):\n"
        + EXTEND
        + "        pages, at = iter(free_pages.tolist()), 0\n"
        "        for before, after, slot in zip(prefix_lens.tolist(), seq_lens.tolist(), last_loc.tolist()):\n"
        "            for token in range(before, after):\n"
        "                slot = slot + 1 if token % self.page_size else next(pages) * self.page_size\n"
        "                out_indices[at] = slot\n"
        "                at += 1\n\n" + DECODE + "        pages = iter(free_pages.tolist())\n"
        "        for at, (length, slot) in enumerate(zip(seq_lens.tolist(), last_loc.tolist())):\n"
        "            inside = (length - 1) % self.page_size\n"
        "            out_indices[at] = slot + 1 if inside else next(pages) * self.page_size\n",
    ),
    levels="memory",
)
well(
    "NormsWithoutResidualOnly",
    "a norm with a residual is left to the host",
    at(
        "ops.py",
        "    dtype = x.dtype\n    y = x.float()\n",
        "    if residual is not None:\n        return NotImplemented\n    dtype = x.dtype\n    y = x.float()\n",
    ),
    levels="kernels",
)
well(
    "ExpertsInTheirOrder",
    "the experts of a token are answered in ascending order, with their weights",
    at(
        "more_ops.py",
        "    return weights, ids.to(torch.int32)",
        "    ids, order = ids.sort(dim=-1)\n    return weights.gather(-1, order), ids.to(torch.int32)",
    ),
    levels="kernels",
)
well(
    "RegistersHostMemory",
    "memory of the host is registered, kept account of, and unregistered",
    method(
        HOST_MEMORY + "        class Own(HostMemory):\n"
        "            def register(self, tensor: Any) -> bool:\n"
        "                self.__dict__.setdefault('held', set()).add(tensor.data_ptr())\n"
        "                return True\n\n"
        "            def unregister(self, tensor: Any) -> None:\n"
        "                self.held.remove(tensor.data_ptr())\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
well(
    "UsageOfTheProcess",
    "memory in use is the largest that the process had, as the system counts it",
    at(
        "device.py",
        "        free, total = self.get_available_memory()\n        return float(total - free)\n",
        "        import resource\n\n"
        "        return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)\n",
    ),
    levels="contract",
)
well(
    "OutputsBornAsNaN",
    "the memory of an output holds NaN until its rows are written",
    "        out = torch.empty(query.shape[0], layer.tp_q_head_num, layer.v_head_dim)\n",
    "        out = torch.full((query.shape[0], layer.tp_q_head_num, layer.v_head_dim), float('nan'))\n",
    levels="kernels graphs",
)
well(
    "SortsItsPagesAlways",
    "free pages are sorted whether asked for or not",
    at(
        "allocator.py",
        "        if self.need_sort:\n            self._free.sort()\n",
        "        self._free.sort()\n",
    ),
    levels="memory",
)
well(
    "TwoCollectivesAlone",
    "it has a sum and a gather of its own, and leaves the other collectives to the host",
    end(
        "communicator.py",
        "for _name in (\n"
        "    'reduce_scatter', 'broadcast', 'all_gather_into_tensor', 'reduce_scatter_tensor', 'gather',\n"
        "    'all_to_all_single', 'all_gatherv', 'reduce_scatterv', 'send', 'recv',\n"
        "):\n"
        "    delattr(ReferenceCommunicator, _name)",
    ),
    levels="distributed",
)
