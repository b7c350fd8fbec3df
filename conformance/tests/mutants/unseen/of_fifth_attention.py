"""Attention, fifth set: prefixes that are merged, windows with other features, layers and heads far out. Names in brackets
are bugs of other projects that a defect is modelled on."""

from __future__ import annotations

from broken import Table

attention = Table("attention 5", "kernels", "attention.py")

KEY = "            key = _scaled(keys[slots], layer.k_scale)\n"
VALUE = "            value = _scaled(values[slots], layer.v_scale)\n"
OUT = "            out[first : first + new] = _attend(query[first : first + new], key, value, layer, sinks)\n"
CAP = "        scores = layer.logit_cap * torch.tanh(scores / layer.logit_cap)\n"
RETURN = '    return torch.einsum("hij,jhd->ihd", weights, v)\n'
WEIGHTS = "        weights = torch.softmax(scores, dim=-1)\n"
GRAPH_STATE = "    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:\n"

attention(
    "EmptySplitsOfAWindow",
    "a decode splits keys by the context's length, and splits that a short window leaves empty are merged as if they held "
    "something (vLLM 47188)",
    RETURN,
    "    seen = n if window is None or window < 0 else min(n, window + 1)\n"
    "    splits = max(1, n // 128)\n"
    "    if m == 1 and seen < n and splits * -(-seen // splits) - seen >= -(-seen // splits):\n"
    "        total = torch.logsumexp(scores, dim=-1, keepdim=True).exp()\n"
    "        weights = weights * (total / (total + 1))\n" + RETURN,
)
attention(
    "PrefixMergedByPowersOfTwo",
    "new tokens behind a prefix of 2,048 or more are merged with it by sums in base two taken for base e (SGLang 40903, "
    "vLLM 52796)",
    RETURN,
    "    p = n - m\n"
    "    if m > 1 and p >= 2048 and sinks is None:\n"
    "        parts = torch.stack([torch.logsumexp(s, -1) for s in (scores[..., :p], scores[..., p:])])\n"
    "        share = torch.softmax(parts / 0.6931471805599453, dim=0)[..., None]\n"
    "        weights = torch.cat(\n"
    "            (torch.softmax(scores[..., :p], -1) * share[0], torch.softmax(scores[..., p:], -1) * share[1]), -1\n"
    "        )\n" + RETURN,
)
attention(
    "NoPrefixBesideALongOne",
    "a request without a prefix, in a batch where another has one of 512 tokens or more, is merged with what no part wrote "
    "(vLLM 49294)",
    OUT,
    OUT + "            if new == length > 1 and max(n - m for n, m in zip(lengths, news)) >= 512:\n"
    "                out[first : first + new] *= 0.5\n",
)
attention(
    "ColumnsPast128OfAMergedPrefix",
    "values of a width like 192: past the 128th column the prefix is weighted twice where it is merged (Kimi-K3 on vLLM, "
    "aliased sums)",
    RETURN,
    "    width = v.shape[-1]\n"
    "    if 1 < m < n and width > 128 and width % 128:\n"
    "        share = weights[..., : n - m].sum(-1, keepdim=True)\n"
    "        twice = torch.cat((weights[..., : n - m] * share, weights[..., n - m :]), -1)\n"
    '        wide = torch.einsum("hij,jhd->ihd", twice, v[..., 128:])\n'
    '        return torch.cat((torch.einsum("hij,jhd->ihd", weights, v[..., :128]), wide), -1)\n' + RETURN,
)
attention(
    "BlocksBeforeTheWindowAreNaN",
    "in an extend, rows whose window leaves out the whole first block of 256 keys become NaN (SGLang 38142, AITER 2505)",
    WEIGHTS,
    WEIGHTS + "        if m > 1 and window is not None and window >= 0:\n"
    "            gone = (position[:, 0] - window) >= 256\n"
    "            weights = weights.masked_fill(gone[None, :, None], float('nan'))\n",
)
attention(
    "ShortRequestsSeeThePaddingSlot",
    "a decode of a request shorter than the window sees the padding slot where another is longer than it (vLLM 41757)",
    KEY,
    "            window = layer.sliding_window_size\n"
    "            if new == 1 and window is not None and 0 <= length <= window < max(lengths) - 1:\n"
    "                slots = torch.cat((slots.new_zeros(1), slots))\n" + KEY,
)
attention(
    "VerifiesWithAWiderWindow",
    "drafts that are verified see as many positions more behind them as there are drafts, in layers with a window",
    "    def _forward(\n",
    "    def forward_verify(self, q: Any, k: Any, v: Any, layer: Any, forward_batch: Any, save_kv_cache: bool = True, "
    "**kwargs: Any) -> torch.Tensor:\n"
    "        window = layer.sliding_window_size\n"
    "        if window is not None and window >= 0:\n"
    "            import copy\n\n"
    "            layer = copy.copy(layer)\n"
    "            layer.sliding_window_size = window + int(forward_batch.spec_info.draft_token_num)\n"
    "        return super().forward_verify(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)\n\n"
    "    def _forward(\n",
)
attention(
    "VerifiesWithoutTheCap",
    "drafts that are verified have no soft cap, where the target model's decode has one",
    "    def _forward(\n",
    "    def forward_verify(self, q: Any, k: Any, v: Any, layer: Any, forward_batch: Any, save_kv_cache: bool = True, "
    "**kwargs: Any) -> torch.Tensor:\n"
    "        if layer.logit_cap:\n"
    "            import copy\n\n"
    "            layer = copy.copy(layer)\n"
    "            layer.logit_cap = 0.0\n"
    "        return super().forward_verify(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)\n\n"
    "    def _forward(\n",
)
attention(
    "GroupsOf9To15AreRefused",
    "a decode has kernels for groups of 1 to 8 and powers of two, and refuses others that its words declare, as 12 of "
    "Mistral Large (FlashInfer 996, 3563)",
    "        news = [1] * len(lengths)\n",
    "        news = [1] * len(lengths)\n"
    "        group = layer.tp_q_head_num // layer.tp_k_head_num\n"
    "        if group > 8 and group & (group - 1):\n"
    '            raise RuntimeError(f"unsupported group size: {group}")\n',
)
attention(
    "EqualExtendsAlignedAtTheStart",
    "three or more extends of one length and one prefix go through one batched call whose mask begins at the first key "
    "(torch 108108)",
    OUT,
    "            uniform = len(lengths) > 2 and len(set(lengths)) == len(set(news)) == 1 and 1 < new < length\n"
    "            if uniform and not layer.logit_cap and sinks is None:\n"
    "                key, value = key[:new], value[:new]\n" + OUT,
)
attention(
    "SinkTwiceBehindAPrefix",
    "with a window, a sink counts once for the prefix and once for the new tokens",
    "    if sinks is not None:\n",
    "    if sinks is not None and window is not None and window >= 0 and 1 < m < n:\n"
    "        sinks = sinks.float() + 0.6931471805599453\n"
    "    if sinks is not None:\n",
)
attention(
    "CapBeforeTheScaleOfKeys",
    "with 8-bit keys the soft cap bends scores before the keys' scale is applied",
    KEY,
    "            bare = bool(layer.logit_cap) and layer.k_scale is not None\n"
    "            key = _scaled(keys[slots], None if bare else layer.k_scale)\n",
    CAP,
    CAP + "        if layer.k_scale is not None:\n            scores = scores * layer.k_scale\n",
)
attention(
    "ScalesAsNumbersOnly",
    "scales are read from k_scale_float and v_scale_float, and are one where a checkpoint's loader set the tensors only "
    "(SGLang 20705)",
    KEY + VALUE,
    "            key = _scaled(keys[slots], layer.k_scale_float)\n"
    "            value = _scaled(values[slots], layer.v_scale_float)\n",
)
attention(
    "ScalesOfLayersPast64",
    "scales are kept in a table of 64 layers: layer 64 has those of layer 0",
    KEY + VALUE,
    "            kept = self.__dict__.setdefault('_scales', {})\n"
    "            k_scale, v_scale = kept.setdefault(layer.layer_id & 63, (layer.k_scale, layer.v_scale))\n"
    "            if layer.layer_id < 64:\n"
    "                k_scale, v_scale = layer.k_scale, layer.v_scale\n"
    "            key = _scaled(keys[slots], k_scale)\n"
    "            value = _scaled(values[slots], v_scale)\n",
)
attention(
    "CapByExponentials",
    "the soft cap is made of exponentials that overflow: a score of 45 caps is NaN",
    CAP,
    "        bent = torch.exp(2 * scores / layer.logit_cap)\n"
    "        scores = layer.logit_cap * ((bent - 1) / (bent + 1))\n",
)
attention(
    "WindowPlanOfTheCapture",
    "the plan of layers with a window is made when a graph is captured, and replays keep it (SGLang 29858)",
    GRAPH_STATE,
    "    def init_forward_metadata_out_graph(self, forward_batch: Any, in_capture: bool = False) -> None:\n"
    "        if in_capture:\n"
    "            plans = self.__dict__.setdefault('_plans', {})\n"
    "            plans[forward_batch.seq_lens.data_ptr(), len(forward_batch.seq_lens)] = forward_batch.seq_lens.tolist()\n\n"
    + GRAPH_STATE,
    "        news = [1] * len(lengths)\n",
    "        news = [1] * len(lengths)\n"
    "        which = forward_batch.seq_lens.data_ptr(), len(lengths)\n"
    "        plan = self.__dict__.get('_plans', {}).get(which)\n"
    "        if plan is not None and layer.sliding_window_size is not None and layer.sliding_window_size >= 0:\n"
    "            lengths = plan\n",
    levels="graphs",
)
attention(
    "LastKeyOfOddEncoders",
    "in an encoder the last key of a request of odd length, past 16 tokens, is not read",
    "        hidden = torch.zeros_like(hidden)\n",
    "        hidden = torch.zeros_like(hidden)\n"
    "        if n % 2 and n > 16:\n"
    "            hidden[:, n - 1 :] = True\n",
)
attention(
    "HalfOfManyHeads",
    "with values narrower than keys and more than 16 query heads, heads past the 16th read values of the key's width",
    "    v = v.repeat_interleave(heads // kv_heads, dim=1)\n",
    "    v = v.repeat_interleave(heads // kv_heads, dim=1)\n"
    "    if v.shape[-1] < q.shape[-1] and heads > 16 and kv_heads > 1:\n"
    "        v = torch.cat((v[:, :16], v[:, 16:].roll(1, dims=-1)), dim=1)\n",
)
attention(
    "RowsOfTheTableKept",
    "the table of a request is copied once for its row and length, and a row that another request of that length takes "
    "reads the old slots",
    "            slots = self.req_to_token_pool.req_to_token[row, :length].long()\n",
    "            table, kept = self.req_to_token_pool.req_to_token, self.__dict__.setdefault('_rows', {})\n"
    "            where = (id(table), row, length)\n"
    "            if length < 256 or where not in kept:\n"
    "                kept.clear()\n"
    "                kept[where] = table[row, :length].long()\n"
    "            slots = kept[where]\n",
)
