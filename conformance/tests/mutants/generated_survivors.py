# ruff: noqa: E501
"""Why generated mutations survive: each is a change that changes nothing, or that no engine can notice."""

from __future__ import annotations

from generated_mutations import Mutation

__all__ = ["explanation"]

SAME_LENGTHS = "what is walked together has one length by construction"
SAME_ROWS = "all buffers, and all rows of one, have the same size"
PAST_THE_END = "the layer after the last is refused as well, by the list of buffers"
EXACT_SCALES = (
    "the type in which a row is divided by its scale is the platform's choice, so the checks use powers of two, with which"
    " no type rounds"
)
CLEAR = "clear() drops an open free group; an engine clears when nothing runs, and none is open then"
ORDER = "need_sort only keeps the free list in order, for speed: any free page may be lent"
ALWAYS_GIVEN = "SGLang gives save_kv_cache with every call"
RESHAPED = "the pool's store takes rows in either shape"
NO_WINDOW = "a window in which a token sees only itself: no model has one, and SGLang uses -1 for none"

REASONS: dict[str, str] = {
    "pools.py: if place < 0 or place >= self.layer_num: -> if place < 0 or place > self.layer_num:": PAST_THE_END,
    "pools.py: if len(kv_cache_cpu[0]) != indices.numel(): -> if len(kv_cache_cpu[1]) != indices.numel():": SAME_ROWS,
    "pools.py: for buffer, rows in zip(self._buffers(), kv_cache_cpu, strict=True): -> for buffer, rows in zip(self._buffers(), kv_cache_cpu, strict=False):": SAME_LENGTHS,
    "pools.py: page_lengths = [buffer[0].nbytes * self.page_size for buffer in buffers] -> page_lengths = [buffer[1].nbytes * self.page_size for buffer in buffers]": SAME_ROWS,
    "rows.py: rows = rows.float() -> pass": EXACT_SCALES,
    "dsa_pool.py: for slot, key, scale in zip(loc.tolist(), keys, scales, strict=True): -> for slot, key, scale in zip(loc.tolist(), keys, scales, strict=False):": SAME_LENGTHS,
    "allocator.py: self.free_group = None -> pass": CLEAR,
    "allocator.py: self.free_page_ids_group = [] -> pass": CLEAR,
    "allocator.py: pages = self._take(sum((self._pages(n) - self._pages(m) for m, n in zip(before, after, strict=True)))) -> pages = self._take(sum((self._pages(n) - self._pages(m) for m, n in zip(before, after, strict=False))))": SAME_LENGTHS,
    "allocator.py: for start, end, slot in zip(before, after, last, strict=True): -> for start, end, slot in zip(before, after, last, strict=False):": SAME_LENGTHS,
    "allocator.py: if self.need_sort: -> if not self.need_sort:": ORDER,
    "allocator.py: self._free.sort() -> pass": ORDER,
    "attention.py: def forward_decode(self, q: torch.Tensor, k: torch.Tensor | None, v: torch.Tensor | None, layer: Any, forward_batch: Any, save_kv_cache: bool=True, **kwargs: Any) -> torch.Tensor: -> def forward_decode(self, q: torch.Tensor, k: torch.Tensor | None, v: torch.Tensor | None, layer: Any, forward_batch: Any, save_kv_cache: bool=False, **kwargs: Any) -> torch.Tensor:": ALWAYS_GIVEN,
    "attention.py: def forward_extend(self, q: torch.Tensor, k: torch.Tensor | None, v: torch.Tensor | None, layer: Any, forward_batch: Any, save_kv_cache: bool=True, **kwargs: Any) -> torch.Tensor: -> def forward_extend(self, q: torch.Tensor, k: torch.Tensor | None, v: torch.Tensor | None, layer: Any, forward_batch: Any, save_kv_cache: bool=False, **kwargs: Any) -> torch.Tensor:": ALWAYS_GIVEN,
    "attention.py: for row, length, new in zip(batch.req_pool_indices.tolist(), lengths, news, strict=True): -> for row, length, new in zip(batch.req_pool_indices.tolist(), lengths, news, strict=False):": SAME_LENGTHS,
    "attention.py: k = k.reshape(-1, layer.tp_k_head_num, layer.qk_head_dim) -> pass": RESHAPED,
    "attention.py: v = v.reshape(-1, layer.tp_v_head_num, layer.v_head_dim) -> pass": RESHAPED,
    "attention.py: if window is not None and window >= 0: -> if window is not None and window > 0:": NO_WINDOW,
    "attention.py: if window is not None and window >= 0: -> if window is not None and window >= 1:": NO_WINDOW,
}


def explanation(mutation: Mutation) -> str | None:
    """The reason, or None where nobody has given one."""
    return REASONS.get(mutation.name)
