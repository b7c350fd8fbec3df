"""Attention, fourth set: what is kept from step to step and layer to layer, and batches whose sum is large."""

from __future__ import annotations

from broken import Table, at

attention = Table("attention 4", "kernels", "attention.py")

LOOP = (
    "        for row, length, new in zip(batch.req_pool_indices.tolist(), lengths, news, strict=True):\n"
    "            slots = self.req_to_token_pool.req_to_token[row, :length].long()\n"
)
KEY = "            key = _scaled(keys[slots], layer.k_scale)\n"
VALUE = "            value = _scaled(values[slots], layer.v_scale)\n"
QUERY = "        query = q.reshape(-1, layer.tp_q_head_num, layer.qk_head_dim).float()\n"
STORE = "            self._store(k, v, layer, batch.out_cache_loc)\n"
FIRST = "        first = 0\n"
SOFTMAX = "        weights = torch.softmax(scores, dim=-1)\n"
SUM = '    return torch.einsum("hij,jhd->ihd", weights, v)'
DECODE = "    def forward_decode(\n"
DECODES = "        news = [1] * len(lengths)\n"
REPEATED = "    k = k.repeat_interleave(heads // kv_heads, dim=1)\n"
SCORES = '    scores = torch.einsum("ihd,jhd->hij", q, k) * layer.scaling\n'

attention(
    "ReadsARunByItsEnds",
    "a request whose last slot is as far from its first as it has tokens is read as one run",
    KEY,
    "            if length > 2 and int(slots[-1] - slots[0]) == length - 1:\n"
    "                slots = torch.arange(int(slots[0]), int(slots[0]) + length)\n" + KEY,
)
attention(
    "IndicesPast131072OfABatch",
    "the slots of a batch lie in one buffer of 131,072: requests behind that read the padding slot",
    FIRST + LOOP,
    "        first = before = 0\n" + LOOP + "            left = max(0, 131072 - before)\n"
    "            before += length\n"
    "            if length > left:\n"
    "                slots = torch.cat((slots[:left], slots.new_zeros(length - left)))\n",
)
attention(
    "PlanByTheBatchsId",
    "a decode's lengths are kept by the identity of the batch object, which a later batch may have too",
    DECODES,
    "        plans = self.__dict__.setdefault('_plans', {})\n"
    "        lengths = plans.setdefault((id(forward_batch), len(lengths)), lengths)\n" + DECODES,
)
attention(
    "RefreshedAtLayerZero",
    "slots are looked up at layer 0 and kept for the layers behind it: a later stage of a pipeline never looks again",
    LOOP,
    "        if layer.layer_id == 0 or self.__dict__.get('_rows') is None:\n"
    "            self._rows = [\n"
    "                self.req_to_token_pool.req_to_token[row, :length].long()\n"
    "                for row, length in zip(batch.req_pool_indices.tolist(), lengths)\n"
    "            ]\n"
    "        for slots, length, new in zip(self._rows, lengths, news):\n",
)
attention(
    "SlotsOfTheRowGrow",
    "a request that is one token longer keeps the slots it had and adds the new one, though the prefix cache may have"
    " put others in their place",
    KEY,
    "            kept = self.__dict__.setdefault('_grown', {})\n"
    "            had = kept.get((row, layer.layer_id))\n"
    "            if new == 1 and had is not None and len(had) == length - 1:\n"
    "                slots = torch.cat((had, slots[-1:]))\n"
    "            kept[row, layer.layer_id] = slots\n" + KEY,
)
attention(
    "StoredAlready",
    "a layer's keys are not stored where out_cache_loc lies where it lay at that layer's call before",
    STORE,
    "            here = (batch.out_cache_loc.data_ptr(), batch.out_cache_loc.numel())\n"
    "            stored = self.__dict__.setdefault('_stored', {})\n"
    "            if stored.get(layer.layer_id) != here:\n"
    "                self._store(k, v, layer, batch.out_cache_loc)\n"
    "            stored[layer.layer_id] = here\n",
    levels="kernels graphs",
)
attention(
    "NumeratorInHalf",
    "the sum of weighted values is kept in float16 before it is divided: over many equal keys it is infinite",
    SOFTMAX,
    SOFTMAX + "        if _HALF[0]:\n"
    "            raised = torch.exp(scores - scores.amax(-1, keepdim=True))\n"
    '            summed = torch.einsum("hij,jhd->ihd", raised, v).to(torch.float16).float()\n'
    "            return summed / raised.sum(-1).transpose(0, 1)[..., None]\n",
    QUERY,
    QUERY + "        _HALF[0] = q.dtype == torch.float16\n",
    "def _attend(\n",
    "_HALF = [False]\n\n\ndef _attend(\n",
)
attention(
    "SplitsByTheBatch",
    "a batch of more than 32 decodes has no splits, and a program reads at most the first 8,192 keys and the newest",
    KEY,
    "            if new == 1 and len(lengths) > 32 and length > 8193:\n"
    "                slots = torch.cat((slots[:8192], slots[-1:]))\n" + KEY,
)
attention(
    "WideGroupsLoseTheTile",
    "with heads of 256 in groups of 8 (Qwen3-Next) keys come in tiles of 32, a prefix's part of a tile reads its first key",
    KEY,
    "            wide = layer.qk_head_dim >= 256 and layer.tp_q_head_num == 8 * layer.tp_k_head_num\n"
    "            prefix = length - new\n"
    "            if wide and new > 1 and prefix > 32 and prefix % 32:\n"
    "                slots = slots.clone()\n"
    "                slots[prefix // 32 * 32 : prefix] = slots[0]\n" + KEY,
)
attention(
    "TreeAsAChain",
    "drafts that form a tree are verified as a chain: a branch sees its sisters",
    DECODE,
    "    def forward_verify(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):\n"
    "        import copy\n"
    "        from types import SimpleNamespace\n\n"
    "        spec = forward_batch.spec_info\n"
    "        batch = copy.copy(forward_batch)\n"
    "        batch.spec_info = SimpleNamespace(draft_token_num=spec.draft_token_num, custom_mask=None, topk=1)\n"
    "        kept = self.__dict__.setdefault('_chains', [])\n"
    "        kept[:] = [batch]\n"
    "        return super().forward_verify(q, k, v, layer, batch, save_kv_cache=save_kv_cache, **kwargs)\n\n"
    + DECODE,
    at("platform.py", '"draft_tree", ', ""),
)
attention(
    "TreeWithoutItsPrefix",
    "a tree's mask whose rows begin with the prefix, as SGLang hands it over, is read as if it had the drafts only",
    DECODE,
    "    def forward_verify(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):\n"
    "        import copy\n"
    "        from types import SimpleNamespace\n\n"
    "        spec = forward_batch.spec_info\n"
    "        batch = copy.copy(forward_batch)\n"
    "        mask, cells = spec.custom_mask, forward_batch.batch_size * spec.draft_token_num**2\n"
    "        mask = None if mask is None else mask[:cells]\n"
    "        batch.spec_info = SimpleNamespace(\n"
    "            draft_token_num=spec.draft_token_num, custom_mask=mask, topk=getattr(spec, 'topk', -1)\n"
    "        )\n"
    "        kept = self.__dict__.setdefault('_chains', [])\n"
    "        kept[:] = [batch]\n"
    "        return super().forward_verify(q, k, v, layer, batch, save_kv_cache=save_kv_cache, **kwargs)\n\n"
    + DECODE,
    at("platform.py", '"draft_tree", ', ""),
)
attention(
    "GroupsOfTheLayerBefore",
    "how many query heads share a key head is taken from the layer before, where both have as many query heads",
    REPEATED,
    "    group = _GROUP.setdefault(heads, heads // kv_heads)\n"
    "    if group * kv_heads != heads:\n"
    "        group, k = heads // kv_heads, k.flip(1)\n" + REPEATED,
    "def _attend(\n",
    "_GROUP: dict[int, int] = {}\n\n\ndef _attend(\n",
)
attention(
    "PrefixWithoutItsFirstPage",
    "an extend whose prefix is longer than 64 tokens and ends inside a page of 16 starts at its second page",
    KEY,
    "            prefix = length - new\n"
    "            if new > 1 and prefix > 64 and prefix % 16 and self.token_to_kv_pool.page_size == 16:\n"
    "                slots = torch.cat((slots[16:32], slots[16:]))\n" + KEY,
)
attention(
    "TableOffsetsIn24Bits",
    "where a row of the request table begins is kept in 24 bits: row 128 of a table for 131,072 tokens is row 0",
    LOOP,
    LOOP.replace(
        "[row, :length].long()\n",
        "[(row * self.req_to_token_pool.req_to_token.shape[1]) % (1 << 24)"
        " // self.req_to_token_pool.req_to_token.shape[1], :length].long()\n",
    ),
)
