"""Allocators and pools, ninth set: extends within one page, steps that do not fit, frees of a group, pages that are stored whole,
buffers that moved, empty requests of the indexer. Names in brackets are bugs of other projects that a defect is modelled on."""

from __future__ import annotations

from broken import Table, at
from of_sixth_memory import WRITE

allocators = Table("allocators 9", "memory", "allocator.py")
pools = Table("pools 9", "memory", "pools.py")

TOKENS = "            for token in range(start, end):\n"
TAKEN = "        pages = self._take(sum(self._pages(n) - self._pages(m) for m, n in zip(before, after, strict=True)))\n"
TOGETHER = "        if slots:\n            self.free(torch.cat(slots))\n"
INFOS = "        buffers = self._buffers()\n        addresses = [buffer.data_ptr() for buffer in buffers]\n"
INDEX_SIZE = "    def get_kv_size_bytes(self) -> int:\n        return super()"

allocators(
    "WithinOnePageFromItsEnd",
    "an extend by several tokens that begins and ends inside one page takes the page's last slots, not those behind the "
    "prefix (SGLang 18200)",
    TOKENS,
    "            inside = start % self.page_size and end % self.page_size\n"
    "            if end - start > 1 and inside and start // self.page_size == end // self.page_size:\n"
    "                slot += self.page_size - end % self.page_size\n" + TOKENS,
)
allocators(
    "FullIsFoundOutWhileFilling",
    "that too few pages are free is found out while slots are filled: a step that does not fit is an error, and the pages "
    "that were left are gone (SGLang 30892)",
    TAKEN,
    "        count = sum(self._pages(n) - self._pages(m) for m, n in zip(before, after, strict=True))\n"
    "        pages = self._take(min(count, len(self._free)))\n",
)
allocators(
    "FreesOfAGroupOneByOne",
    "what was freed in a group is freed one by one when it ends: a page whose slots came in two of them is an error",
    TOGETHER,
    "        for one in slots or ():\n            self.free(one)\n",
)

pools(
    "WholePagesAreStoredWhole",
    "rows that are as many as fill pages, the first of which begins one, are stored page by page: a request that begins in "
    "their middle has its rows in the page before",
    WRITE,
    "        n, size = loc.numel(), self.page_size\n"
    "        if size > 1 and n and n % size == 0 and int(loc.reshape(-1)[0]) % size == 0:\n"
    "            firsts = loc.reshape(-1)[::size] // size * size\n"
    "            loc = (firsts[:, None] + torch.arange(size)).reshape(-1)\n" + WRITE,
)
pools(
    "InfosOfTheFirstQuestion",
    "addresses are those of the first question: after the memory saver took the buffers again, transfers go where they "
    "were",
    INFOS,
    "        buffers = self._buffers()\n"
    "        addresses = self.__dict__.setdefault('_addresses', [buffer.data_ptr() for buffer in buffers])\n",
)
pools(
    "SkippingLayersHaveNoInfos",
    "a transfer engine is not told of layers that keep no keys for the indexer: keys of those behind them arrive in other "
    "layers",
    at(
        "dsa_pool.py",
        INDEX_SIZE,
        "    def get_state_buf_infos(self) -> tuple[list[int], list[int], list[int]]:\n"
        "        told = zip(*super().get_state_buf_infos(), strict=True)\n"
        "        kept = [one for one, skipped in zip(told, self.skip_topk_layers, strict=True) if not skipped]\n"
        "        addresses, lengths, pages = (list(part) for part in zip(*kept, strict=True))\n"
        "        return addresses, lengths, pages\n\n" + INDEX_SIZE,
    ),
)
pools(
    "RotatedPartIsCutOff",
    "the rotated part of a packed row loses its lower 16 bits instead of being rounded",
    at(
        "packed_rows.py",
        "        rotated.to(torch.bfloat16).contiguous().view(torch.uint8)",
        "        (rotated.float().contiguous().view(torch.int32) >> 16).to(torch.int16).view(torch.uint8)",
    ),
)
pools(
    "EmptyRequestsOfTheIndexer",
    "of a batch whose indexer's keys are read, a request without tokens is left out, and those behind it read its pages",
    at(
        "dsa_pool.py",
        INDEX_SIZE,
        "    def get_index_k_scale_buffer(\n"
        "        self, layer_id: int, seq_len_tensor: Any, page_indices: Any, seq_len_sum: int, max_seq_len: int\n"
        "    ) -> Any:\n"
        "        lengths = seq_len_tensor[seq_len_tensor > 0]\n"
        "        pages = page_indices[: len(lengths)]\n"
        "        return super().get_index_k_scale_buffer(layer_id, lengths, pages, seq_len_sum, max_seq_len)\n\n"
        + INDEX_SIZE,
    ),
)
