"""Attention that is wrong in what it takes, what it returns, what it changes, or what it remembers."""

from broken import Table

calls = Table("attention calls", "kernels", "attention.py")

_STORE = "        if save_kv_cache and k is not None:\n"
_QUERY = "        query = q.reshape(-1, layer.tp_q_head_num, layer.qk_head_dim).float()\n"
_RETURN = "        return out.to(q.dtype).flatten(1)\n"
_LOOP = "        for row, length, new in zip(batch.req_pool_indices.tolist(), lengths, news, strict=True):\n"
_SLOTS = "            slots = self.req_to_token_pool.req_to_token[row, :length].long()\n"
_K = "        k = k.reshape(-1, layer.tp_k_head_num, layer.qk_head_dim)\n"
_V = "        v = v.reshape(-1, layer.tp_v_head_num, layer.v_head_dim)\n"
_KEYS = "        keys = self.token_to_kv_pool.get_key_buffer(layer.layer_id)\n"
_DECODE = "        lengths = forward_batch.seq_lens.tolist()\n        news = [1] * len(lengths)\n"
_EXTEND = "        news = forward_batch.extend_seq_lens.tolist()\n"
_INIT = "    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:\n"

# What is taken

calls(
    "StridesOfKeysAssumed",
    "keys are read as if they were contiguous; a slice of a fused qkv is not",
    _K,
    "        if not k.is_contiguous():\n"
    "            k = torch.as_strided(k, (k.shape[0], k[0].numel()), (k[0].numel(), 1), k.storage_offset())\n"
    + _K,
)
calls(
    "StridesOfQueryAssumed",
    "the query is read as if it were contiguous",
    _QUERY,
    "        if not q.is_contiguous():\n"
    "            q = torch.as_strided(q, q.shape, q.new_empty(q.shape, device='meta').stride(), q.storage_offset())\n"
    + _QUERY,
)
calls(
    "QueryIsViewed",
    "a query that is no view (a slice of a fused qkv in 3 dimensions) is refused by torch",
    _QUERY,
    _QUERY.replace("q.reshape(", "q.view("),
)
calls(
    "FlatKeysOnly",
    "keys of 3 dimensions have their shape read as [T, heads * dim]",
    _K,
    "        assert k.dim() == 2 and v is not None and v.dim() == 2\n" + _K,
)
calls(
    "SaveIsIgnored",
    "keys and values are stored where the host said not to",
    _STORE,
    "        if k is not None:\n",
)
calls(
    "SaveIsIgnoredInExtend",
    "with save_kv_cache False an extend stores all the same",
    _STORE,
    "        if k is not None and (save_kv_cache or sum(news) > len(news)):\n",
)
calls(
    "KeysMustBeGiven",
    "a layer that shares the cache of another (k and v None) is refused",
    _STORE,
    '        if k is None:\n            raise ValueError("keys are needed")\n        if save_kv_cache:\n',
)
calls(
    "KeysReadFromArgument",
    "with save_kv_cache False the keys that are in the cache at the new tokens' slots are taken for zero",
    _QUERY,
    _QUERY + "        if k is not None and not save_kv_cache:\n"
    "            keys = keys.clone()\n            keys[batch.out_cache_loc] = 0\n",
)
calls(
    "EmptyBatchRaises",
    "a batch without requests is an error",
    _LOOP,
    f"        longest = max(lengths)\n        assert longest >= 0\n{_LOOP}",
)
calls(
    "IdleRaises",
    "an idle step (data parallel attention) goes the way of a decode, and fails",
    _INIT,
    """    def forward(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):
        if forward_batch.forward_mode.is_idle():
            raise RuntimeError("no kernel for this mode")
        return super().forward(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)

"""
    + _INIT,
)
calls(
    "IdleOfOneRow",
    "an idle step answers with a row",
    _INIT,
    """    def forward(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):
        if forward_batch.forward_mode.is_idle():
            return q.new_zeros(1, layer.tp_q_head_num * layer.v_head_dim)
        return super().forward(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)

"""
    + _INIT,
)
calls(
    "LengthsOnCpuNeeded",
    "lengths on the CPU are needed, which the host leaves out while a graph is captured",
    _DECODE,
    "        lengths = forward_batch.seq_lens_cpu.tolist()\n        news = [1] * len(lengths)\n",
    levels="kernels graphs",
)

# What is returned

calls("ReturnsFloat32", "the result is float32 for queries of 16 bits", _RETURN,
      "        return out.flatten(1)\n")  # fmt: skip
calls("ReturnsPoolType", "the result has the type of the cache where that is wider than the query's", _RETURN,
      "        wide = keys.element_size() > q.element_size()\n"
      "        return out.to(keys.dtype if wide else q.dtype).flatten(1)\n")  # fmt: skip
calls("ReturnsBfloat16", "the result of a float16 model is bfloat16", _RETURN,
      "        kind = torch.bfloat16 if q.dtype == torch.float16 else q.dtype\n"
      "        return out.to(kind).flatten(1)\n")  # fmt: skip
calls("Returns3D", "the result is [T, heads, dim]", _RETURN, "        return out.to(q.dtype)\n")
calls("ReturnsColumns", "the result is a transposed view, which models' view() refuses", _RETURN,
      "        return out.to(q.dtype).flatten(1).t().contiguous().t()\n")  # fmt: skip
calls("ReturnsQuery", "the result is written over the query, which a model may still read", _RETURN,
      "        result = out.to(q.dtype).flatten(1)\n"
      "        if q.shape == result.shape:\n            q.copy_(result)\n        return result\n")  # fmt: skip
# What is changed

calls("QueryScaledInPlace", "the caller's query is scaled in place", _QUERY,
      _QUERY + "        q.mul_(1.0009765625)\n")  # fmt: skip
calls("KeysScaledInPlace", "the caller's keys are divided by their scale in place", _K,
      "        if layer.k_scale is not None:\n            k.div_(layer.k_scale).mul_(layer.k_scale * 2)\n" + _K)  # fmt: skip
calls("ValuesCleared", "the caller's values are cleared once they are stored", _V,
      _V + "        self._drop = v\n", _QUERY,
      _QUERY + "        if getattr(self, '_drop', None) is not None:\n"
      "            self._drop.zero_()\n            self._drop = None\n")  # fmt: skip
calls("SeqLensRaised", "seq_lens of the batch are raised in a decode, for the next step", _DECODE,
      _DECODE + "        forward_batch.seq_lens.add_(1)\n")  # fmt: skip
calls("NewLengthsCleared", "extend_seq_lens are used up", _EXTEND,
      _EXTEND + "        forward_batch.extend_seq_lens.zero_()\n")  # fmt: skip
calls("LocationsSorted", "out_cache_loc is sorted in place", _LOOP,
      "        batch.out_cache_loc.copy_(batch.out_cache_loc.sort().values)\n" + _LOOP)  # fmt: skip
calls("RowsSorted", "req_pool_indices are sorted in place after the call", _RETURN,
      "        batch.req_pool_indices.copy_(batch.req_pool_indices.sort().values)\n" + _RETURN)  # fmt: skip
calls("TableTailCleared", "the request table is cleared behind each request's length", _SLOTS,
      _SLOTS + "            self.req_to_token_pool.req_to_token[row, length:] = 0\n")  # fmt: skip
calls("TableRowZero", "the padding row of the request table serves as scratch", _SLOTS,
      _SLOTS + "            self.req_to_token_pool.req_to_token[0, :length] = slots.int()\n")  # fmt: skip
calls("SinksRaisedInPlace", "sinks are exponentiated in place", _LOOP,
      "        if sinks is not None:\n            sinks.exp_().log_().add_(1e-2)\n" + _LOOP)  # fmt: skip
calls("ScaleFolded", "layer.scaling is multiplied by the key's scale, and stays so", _KEYS,
      _KEYS + "        if layer.k_scale is not None:\n            layer.scaling = layer.scaling * 1.0001\n")  # fmt: skip
calls("PrefixRewritten", "the prefix is stored again, rounded to 8 bits of mantissa", _SLOTS,
      _SLOTS + "            if new > 1 and keys.dtype == torch.float32:\n"
      "                keys[slots[: length - new]] = keys[slots[: length - new]].bfloat16().float()\n")  # fmt: skip
calls("ScratchInSlotZero", "the last key is copied into the padding slot, and read from there as NaN", _SLOTS,
      _SLOTS + "            keys.view(torch.uint8)[0] = 255\n")  # fmt: skip

# What is remembered

calls("TableOfConstruction", "the request table is copied when the backend is made", _SLOTS,
      _SLOTS.replace("self.req_to_token_pool.req_to_token[", "self._table["),
      _INIT,
      "    def __init__(self, model_runner):\n        super().__init__(model_runner)\n"
      "        self._table = self.req_to_token_pool.req_to_token.clone()\n\n" + _INIT)  # fmt: skip
calls("TableOfFirstCall", "the request table is copied at the first call", _SLOTS,
      "            if not hasattr(self, '_table'):\n"
      "                self._table = self.req_to_token_pool.req_to_token.clone()\n"
      + _SLOTS.replace("self.req_to_token_pool.req_to_token[", "self._table["))  # fmt: skip
calls("LengthsByBatchSize", "a decode's lengths are kept by batch size", _DECODE,
      "        self._kept = getattr(self, '_kept', {})\n"
      "        lengths = self._kept.setdefault(forward_batch.batch_size, forward_batch.seq_lens.tolist())\n"
      "        news = [1] * len(lengths)\n")  # fmt: skip
calls("RowsOfLargerBatch", "the result has the rows of the largest batch so far", _RETURN,
      "        if out.shape[0] < getattr(self, '_rows', 0):\n"
      "            out = torch.cat((out, out.new_zeros(self._rows - out.shape[0], *out.shape[1:])))\n"
      "        self._rows = out.shape[0]\n" + _RETURN)  # fmt: skip
calls("WorkspaceAddsUp", "a workspace is not cleared where a batch is smaller than the one before", _RETURN,
      "        kept = getattr(self, '_work', None)\n"
      "        if kept is not None and kept.shape[1:] == out.shape[1:] and len(kept) > len(out):\n"
      "            out = out + kept[: len(out)]\n        self._work = out.clone()\n" + _RETURN)  # fmt: skip
calls("BufferIsShared", "all results are views of one buffer: a call changes the result of the one before", _RETURN,
      "        out = out.to(q.dtype).flatten(1)\n"
      "        kept = getattr(self, '_kept', None)\n"
      "        if kept is None or kept.shape != out.shape or kept.dtype != out.dtype:\n"
      "            self._kept = kept = torch.empty_like(out)\n        return kept.copy_(out)\n")  # fmt: skip
calls("LayerOfFirstCall", "the buffers of the layer that was called first are kept", _KEYS,
      "        self._keys = getattr(self, '_keys', None)\n        if self._keys is None:\n"
      "            self._keys = self.token_to_kv_pool.get_key_buffer(layer.layer_id)\n        keys = self._keys\n")  # fmt: skip
calls("ShapeOfFirstCall", "the head counts of the layer that was called first are kept", _QUERY,
      "        self._heads = getattr(self, '_heads', layer.tp_q_head_num)\n"
      "        if self._heads != layer.tp_q_head_num:\n            layer_heads = self._heads\n"
      "        else:\n            layer_heads = layer.tp_q_head_num\n"
      + _QUERY.replace("layer.tp_q_head_num", "layer_heads"))  # fmt: skip
calls("SharedSlotsOfLastOwner", "a slot belongs to the request that named it last: shared prefixes are hidden to others",
      _LOOP,
      "        owner = {}\n"
      "        for row, length in zip(batch.req_pool_indices.tolist(), lengths, strict=True):\n"
      "            for slot in self.req_to_token_pool.req_to_token[row, :length].tolist():\n"
      "                owner[slot] = row\n" + _LOOP,
      _SLOTS,
      _SLOTS + "            slots = torch.tensor([s for s in slots.tolist() if owner[s] == row or s in "
      "slots[length - new :].tolist()] or [0])\n            length = len(slots)\n")  # fmt: skip
calls("NotDeterministic", "contexts over 256 are added up in another order each time", _RETURN,
      "        if max(lengths, default=0) > 256:\n"
      "            out = out * (1 + 1e-6 * torch.randn(out.shape))\n" + _RETURN)  # fmt: skip
calls("PaddedToLongest", "requests are padded with slot 0, whose values weigh 0 but are multiplied", _SLOTS,
      _SLOTS + "            poison = values[0].float().sum() * 0\n",
      "            first += new\n",
      "            out[first : first + new] += poison\n            first += new\n")  # fmt: skip
calls("PageIsRead", "the rest of a request's last page is multiplied by weights of 0", _SLOTS,
      _SLOTS + "            rest = self.req_to_token_pool.req_to_token[row, length : length + 3].long()\n"
      "            poison = values[rest].float().sum() * 0 if len(rest) else 0\n",
      "            first += new\n",
      "            out[first : first + new] += poison\n            first += new\n")  # fmt: skip

# Speed

calls("SlowByContext", "a decode computes the scores of every pair of cached tokens", _SLOTS,
      _SLOTS + "            every = keys[slots].float().flatten(1)\n"
      "            self._waste = float((every @ every.T).sum())\n")  # fmt: skip
calls("SlowByTable", "each request gathers the whole cache", _SLOTS,
      _SLOTS + "            self._waste = keys.view(torch.uint8).clone(), values.clone()\n")  # fmt: skip
calls("SlowByRequest", "each request waits 5 ms for the device", _SLOTS,
      "            import time\n\n            time.sleep(0.005)\n" + _SLOTS)  # fmt: skip
