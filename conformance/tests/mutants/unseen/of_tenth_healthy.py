"""Healthy, tenth set: unusual, and right by the contract. Nothing may fail on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broken import Table, at, end
from of_fifth_contracts import SAVER
from of_third_lifecycle import method
from plugins import PACKAGE, write_plugin

parts = Table("healthy 10", "memory kernels graphs", "attention.py")

LATER = "    hidden = other > position\n"
HIDDEN = '    scores = scores.masked_fill(hidden, float("-inf"))\n'
BUCKETS = '    """Buckets, padding and static inputs are core\'s."""\n'


def well(name: str, what: str, *words: Any, levels: str = "") -> None:
    parts(name, what, *words, levels=levels, healthy=True)


well(
    "PagesRoundAndRound",
    "where pages need not be sorted, those behind the last that was lent are lent next, and round again at the end",
    at(
        "allocator.py",
        "        self._free = list(range(1, self.num_pages + 1))\n",
        "        self._free = list(range(1, self.num_pages + 1))\n        self._hand = 0\n",
    ),
    at(
        "allocator.py",
        "        self._lent.update(pages)\n",
        "        self._lent.update(pages)\n        self._hand = pages[-1] if pages else self._hand\n",
    ),
    at(
        "allocator.py",
        "        self._free = pages + self._free\n        if self.need_sort:\n            self._free.sort()\n",
        "        if self.need_sort or len(pages) > 32:\n"
        "            self._free = pages + self._free\n"
        "            self._free.sort(key=None if self.need_sort else self._ahead)\n"
        "            return\n"
        "        for page in pages:\n"
        "            bisect.insort(self._free, page, key=self._ahead)\n\n"
        "    def _ahead(self, page: int) -> int:\n"
        '        """How far a page lies behind the one that was lent last, round and round."""\n'
        "        return (page - self._hand - 1) % self.num_pages\n",
    ),
    at(
        "allocator.py",
        "        return list(self._free), set(self._lent)\n",
        "        return list(self._free), set(self._lent), self._hand\n",
    ),
    at(
        "allocator.py",
        "        free, lent = state\n        self._free, self._lent = list(free), set(lent)\n",
        "        free, lent, self._hand = state\n        self._free, self._lent = list(free), set(lent)\n",
    ),
    at("allocator.py", "from typing import Any\n", "import bisect\nfrom typing import Any\n"),
    levels="memory",
)
well(
    "AttentionIsTorchsOwn",
    "where there is neither a cap nor a sink, torch's own scaled_dot_product_attention weighs, in float32",
    HIDDEN,
    "    if sinks is None and not layer.logit_cap:\n"
    "        rows = [part.transpose(0, 1) for part in (q, k, v)]\n"
    "        attended = torch.nn.functional.scaled_dot_product_attention(\n"
    "            *rows, attn_mask=~hidden, scale=layer.scaling\n"
    "        )\n"
    "        return attended.transpose(0, 1)\n" + HIDDEN,
    levels="kernels graphs",
)
well(
    "MasksFromATable",
    "causal masks are parts of a table, built when it is first needed, and doubled up to 2,048 tokens",
    LATER,
    "    hidden = other > position if n > 2048 else _later(n)[n - m : n, :n]\n",
    end(
        "attention.py",
        "\n_TABLE: list[torch.Tensor] = []\n\n\n"
        "def _later(n: int) -> torch.Tensor:\n"
        '    """[N, N] for an N of at least n: true where the column is behind the row."""\n'
        "    if not _TABLE or len(_TABLE[0]) < n:\n"
        "        size = 1 << max(n - 1, 63).bit_length()\n"
        "        with torch.inference_mode(False):\n"
        '            _TABLE[:] = [torch.ones((size, size), dtype=torch.bool, device="cpu").triu(1)]\n'
        "    return _TABLE[0]",
    ),
    levels="kernels graphs",
)
well(
    "AnswersAreCopies",
    "what a decode step with a graph answers is a copy: it stays as it is when the graph is replayed",
    at(
        "graph_runner.py",
        BUCKETS,
        BUCKETS + "\n    def execute(self, forward_batch: Any, pp_proxy_tensors: Any = None) -> Any:\n"
        "        return _copied(super().execute(forward_batch, pp_proxy_tensors))\n",
    ),
    at(
        "graph_runner.py",
        "from collections.abc import Callable\n",
        "import copy\nfrom collections.abc import Callable\n",
    ),
    end(
        "graph_runner.py",
        "\ndef _copied(output: Any) -> Any:\n"
        '    """The output with tensors of its own, in objects of the same kinds."""\n'
        "    if isinstance(output, torch.Tensor):\n"
        "        return output.clone()\n"
        "    if not _tensors(output):\n"
        "        return output\n"
        "    if isinstance(output, dict):\n"
        "        return {name: _copied(part) for name, part in output.items()}\n"
        "    if isinstance(output, list | tuple):\n"
        "        made = [_copied(part) for part in output]\n"
        "        return output._make(made) if hasattr(output, '_make') else type(output)(made)\n"
        "    other = copy.copy(output)\n"
        "    other.__dict__.update({name: _copied(part) for name, part in vars(output).items()})\n"
        "    return other",
    ),
    levels="graphs",
)
well(
    "MemoryKeepsItsAddress",
    "what is released keeps its size and its address: its pages go back to the system by madvise",
    method(
        SAVER + "        import ctypes\n"
        "        import mmap\n\n"
        "        import torch\n\n"
        "        from sglang_platform.core.memory.memory_saver import _released\n\n"
        "        libc, page = ctypes.CDLL(None), mmap.PAGESIZE\n\n"
        "        class Own(MemorySaver):\n"
        "            def release(self, tag: str, tensors: Any, *, keep_content: bool = False) -> None:\n"
        "                if tag in self._held:\n"
        "                    super().release(tag, tensors, keep_content=keep_content)\n"
        "                storages = {one.data_ptr(): one for one in (tensor.untyped_storage() for tensor in tensors)}\n"
        "                held: list[Any] = []\n"
        "                for address, storage in storages.items():\n"
        "                    size = storage.nbytes()\n"
        "                    if not size:\n"
        "                        continue\n"
        "                    content = torch.UntypedStorage(size).copy_(storage) if keep_content else None\n"
        "                    held.append((storage, content))\n"
        "                    start, stop = -(-address // page) * page, (address + size) // page * page\n"
        "                    if start < stop:\n"
        "                        where = ctypes.c_void_p(start), ctypes.c_size_t(stop - start)\n"
        "                        libc.madvise(*where, mmap.MADV_DONTNEED)\n"
        "                    _released.add(size)\n"
        "                self._held[tag] = held\n\n"
        "            def resume(self, tag: str) -> bool:\n"
        "                if tag not in self._held:\n"
        "                    return super().resume(tag)\n"
        "                for storage, content in self._held.pop(tag):\n"
        "                    storage.fill_(0) if content is None else storage.copy_(content)\n"
        "                return False\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
well(
    "NothingBesideTheDevice",
    "memory of the host and transfers between engines are refused, and it is said what to do without them",
    method(
        "    def get_host_memory_cls(self) -> type | None:\n"
        "        raise NotImplementedError(\n"
        '            "this device cannot copy with memory of the host: serve without a hierarchical cache"\n'
        "        )\n\n"
        "    def get_transfer_engine_cls(self) -> type | None:\n"
        "        raise NotImplementedError(\n"
        '            "this device is not reached from another engine: prefill and decode in one engine"\n'
        "        )\n"
    ),
    levels="contract memory",
)


@parts.written(
    "BytecodeAlone",
    "the platform's module is shipped as bytecode, without its source",
    levels="packaging processes contract",
    healthy=True,
)
def _(folder: Path) -> Any:
    import py_compile

    installed = write_plugin(folder)
    source = folder / PACKAGE / "platform.py"
    py_compile.compile(
        str(source),
        cfile=str(source.with_suffix(".pyc")),
        dfile=f"{PACKAGE}/platform.py",
        doraise=True,
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    source.unlink()
    record = next(folder.glob("*.dist-info")) / "RECORD"
    record.write_text(record.read_text().replace(f"{PACKAGE}/platform.py,", f"{PACKAGE}/platform.pyc,"))
    return installed
