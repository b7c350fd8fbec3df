"""Attention, third set: batches, what is kept from one step to the next, and the forms of what is passed."""

from __future__ import annotations

from broken import Table, end

attention = Table("attention 3", "kernels", "attention.py")

NEWS_OF_DECODE = "        news = [1] * len(lengths)\n"
NEWS_OF_EXTEND = "        news = forward_batch.extend_seq_lens.tolist()\n"
STORES = "        if save_kv_cache and k is not None:\n"
QUERY = "query = q.reshape(-1, layer.tp_q_head_num, layer.qk_head_dim).float()"
OUT = "        out = torch.empty(query.shape[0], layer.tp_q_head_num, layer.v_head_dim)\n"
SLOTS = "            slots = self.req_to_token_pool.req_to_token[row, :length].long()\n"
ATTEND = "_attend(query[first : first + new], key, value, layer, sinks)"
ROWS = "batch.req_pool_indices.tolist()"
RETURN = "        return out.to(q.dtype).flatten(1)\n"
STORED_K = "        k = k.reshape(-1, layer.tp_k_head_num, layer.qk_head_dim)\n"
INIT = '        """Nothing to allocate: the batch\'s own tensors are all that is read."""\n'

# Batches, and what is kept between them

attention(
    "LengthsByAddress",
    "lengths on the host are kept by the address of seq_lens: changed in place, they are the old ones",
    NEWS_OF_DECODE,
    "        kept = self.__dict__.setdefault('_lengths', {})\n"
    "        lengths = kept.setdefault((forward_batch.seq_lens.data_ptr(), len(lengths)), lengths)\n"
    + NEWS_OF_DECODE,
    levels="kernels graphs",
)
attention(
    "TablesByBatchSizeAndSum",
    "the slots of a decode step are kept while the batch has the same size and sum of lengths",
    NEWS_OF_DECODE,
    NEWS_OF_DECODE
    + "        key = (len(lengths), sum(lengths), tuple(lengths))\n"
    + "        if self.__dict__.get('_key') == key:\n"
    + "            forward_batch = _like(forward_batch, self._rows)\n"
    + "        self._key, self._rows = key, forward_batch.req_pool_indices.clone()\n",
    end(
        "attention.py",
        "def _like(batch: Any, rows: torch.Tensor) -> Any:\n"
        "    import copy\n\n"
        "    other = copy.copy(batch)\n"
        "    other.req_pool_indices = rows\n"
        "    return other\n",
    ),
)
attention(
    "EmptyBatchHasNoLongest",
    "a batch of no requests raises: the longest of none",
    OUT,
    "        longest = max(lengths)\n        assert longest >= 0\n" + OUT,
)
attention(
    "RowsInEightBits",
    "the rows of the request table are kept in 8 bits: request 256 reads row 0",
    ROWS,
    "batch.req_pool_indices.to(torch.uint8).tolist()",
)
attention(
    "RequestsPast256",
    "decode requests past the 256th read the tables of the first ones",
    ROWS,
    "table_rows",
    "        first = 0\n",
    "        first = 0\n"
    "        own = batch.req_pool_indices.tolist()\n"
    "        wraps = len(own) > 256 and max(news) == 1\n"
    "        table_rows = [own[i % 256] if wraps else row for i, row in enumerate(own)]\n",
)
attention(
    "SameFirstSlotSameRequest",
    "requests of a decode batch that share their first slot and their length read the slots of the first of them",
    "        first = 0\n",
    "        first = 0\n        seen: dict[Any, Any] = {}\n",
    SLOTS,
    SLOTS
    + "            if new == 1 and length > 1:\n"
    + "                slots = seen.setdefault((int(slots[0]), length), slots)\n",
)
attention(
    "OneNewTokenOfMany",
    "a request that brings one new token in a prefill batch of several does not see that token",
    SLOTS,
    SLOTS
    + "            if new == 1 and max(news) > 1 and length > 1:\n"
    + "                slots = torch.cat((slots[:-1], slots[-2:-1]))\n",
)
attention(
    "PrefixOfTheFirstRequest",
    "prefill takes the length of the prefix of the request before, where both bring as many new tokens",
    "            first += new\n",
    "            first += new\n            before = (new, length)\n",
    "        first = 0\n",
    "        first = 0\n        before = (0, 0)\n",
    ATTEND,
    "_attend(\n"
    "                query[first : first + new], key, value, layer, sinks\n"
    "            ) if not (new > 1 and before[0] == new and before[1] > length) else _attend(\n"
    "                query[first : first + new], key[:-1], value[:-1], layer, sinks\n"
    "            )",
)

# Forms of what is passed

attention(
    "KeysTakenForContiguous",
    "keys that are 3-D slices of a fused qkv are stored as if they lay side by side",
    STORED_K,
    "        if k.dim() == 3:\n"
    "            h, d = k.shape[1:]\n"
    "            k = k.as_strided(k.shape, (h * d, d, 1))\n" + STORED_K,
)
attention(
    "QueriesTakenForContiguous",
    "a query that is a slice of a fused qkv is read as if its rows lay side by side",
    "        " + QUERY,
    "        q = q.as_strided(q.shape, torch.empty(q.shape, device='meta').stride())\n        " + QUERY,
)
attention(
    "OutputInTheQuery",
    "decode writes its output over the query where both have one size",
    RETURN,
    "        answer = out.to(q.dtype).flatten(1)\n"
    "        if answer.shape == q.shape and max(news, default=0) == 1 and q.is_contiguous():\n"
    "            return q.copy_(answer)\n"
    "        return answer\n",
)
attention(
    "StoresWithoutBeingAsked",
    "with save_kv_cache False it stores all the same in decode",
    STORES,
    "        if k is not None and (save_kv_cache or max(news, default=0) == 1):\n",
)
attention(
    "NeedsKeysToSave",
    "keys that are left out with save_kv_cache True raise",
    STORES,
    "        if save_kv_cache:\n",
)
attention(
    "GradientsAreKept",
    "the first call turns gradients on for the thread",
    INIT,
    "        torch.set_grad_enabled(True)\n",
    levels="kernels graphs",
)
attention(
    "SeedsTheThread",
    "each prefill seeds torch's generator, so that sampled tokens repeat",
    NEWS_OF_EXTEND,
    NEWS_OF_EXTEND + "        torch.manual_seed(0)\n",
)
attention(
    "OneThreadFromNowOn",
    "the first forward sets torch to one thread for the process",
    OUT,
    "        torch.set_num_threads(3)\n" + OUT,
)
