"""Mutants of levels 3 and 4 that keep something of every call."""

from __future__ import annotations

from functools import partial

from patched_reference import patch, patched

__getattr__ = patched

allocator = partial(patch, __name__, file="allocator.py", check="memory.freed_slots_are_not_kept")
pool = partial(patch, __name__, file="pools.py", check="memory.pool_calls_keep_no_memory")
attention = partial(patch, __name__, file="attention.py", check="kernels.attention_steps_keep_no_memory")
op = partial(patch, __name__, file="ops.py", check="kernels.ops_keep_no_memory")

_TAKEN = "        pages, self._free = self._free[:count], self._free[count:]\n"
_WRITE = "        buffer[loc.reshape(-1)] = rows.reshape(-1, *buffer.shape[1:])\n"
_LOADED = "            buffer[indices] = rows.to(buffer.device)\n"
_MOVED = "            buffer[tgt_loc] = buffer[src_loc].clone()\n"
_KEYS = "        keys = self.token_to_kv_pool.get_key_buffer(layer.layer_id)\n"
_SUMMED = "        total = self.all_reduce(input_.clone())\n"
_NORM = "    return y if residual is None else (y, residual)\n"

allocator(
    "LentPagesAreTraced",
    old=_TAKEN,
    new=_TAKEN + "        self.__dict__.setdefault('_trace', []).append([str(page) for page in pages])\n",
    defect="the pages of every request that ever came are kept, in Python",
    says="more objects of Python",
)
pool(
    "StoresKeepTheirSlots",
    old=_WRITE,
    new="        self.__dict__.setdefault('_slots', []).append(loc.clone())\n" + _WRITE,
    defect="the slots of every store are kept",
    says="stores leave more bytes",
)
pool(
    "LoadsKeepTheirRows",
    old=_LOADED,
    new="            self.__dict__.setdefault('_rows', []).append(rows.clone())\n" + _LOADED,
    defect="what came back from host memory is kept beside the pool",
    says="copies to host memory",
)
pool(
    "MovesAreQueuedForEver",
    old=_MOVED,
    new=_MOVED + "            self.__dict__.setdefault('_moves', []).append(tgt_loc.cpu().numpy().copy())\n",
    defect="every move leaves its targets in a list of numpy's",
    says="moves leave more objects",
)
attention(
    "EveryLengthIsKept",
    old=_KEYS,
    new="        self.__dict__.setdefault('_lengths', []).append(batch.seq_lens)\n" + _KEYS,
    defect="attention keeps the lengths of every step",
    says="more bytes in tensors",
)
op(
    "NormKeepsItsInput",
    old=_NORM,
    new="    op.__dict__.setdefault('_seen', []).append(y)\n" + _NORM,
    defect="the norm keeps what it answered",
    says="more bytes in tensors",
)
patch(
    __name__,
    "SumsAreKept",
    file="communicator.py",
    old=_SUMMED,
    new=_SUMMED + "        self.__dict__.setdefault('_sums', []).append(total)\n",
    check="distributed.hundreds_of_collectives_are_right",
    defect="the sum of which a rank takes its share is kept",
    says="collectives leave more",
)
patch(
    __name__,
    "WorkspaceOfAllTokens",
    file="attention.py",
    old=_KEYS,
    new="        self._scores = torch.empty(q.shape[0], sum(lengths), dtype=torch.float16)\n" + _KEYS,
    check="kernels.prefill_memory_grows_with_the_tokens",
    defect="scores of all new tokens by all tokens of the batch have room",
    says="bytes at a time",
)
patch(
    __name__,
    "TunesForEachLength",
    file="attention.py",
    old=_KEYS,
    new="        tuned = self.__dict__.setdefault('_tuned', {})\n"
    "        if sum(lengths) not in tuned:\n"
    "            tuned[sum(lengths)] = [torch.ones(600, 600) @ torch.ones(600, 600) for _ in range(20)][0].sum()\n"
    + _KEYS,
    check="kernels.new_lengths_take_no_longer",
    defect="kernels are tuned for each number of tokens that a batch has",
    says="at a length that is new",
)
