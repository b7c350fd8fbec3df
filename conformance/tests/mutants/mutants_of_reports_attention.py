"""Level 4 mutants: attention as other projects had it wrong; the number of the report stands behind the defect."""

from __future__ import annotations

from functools import partial

from patched_reference import patch, patched

__getattr__ = patched

attention = partial(patch, __name__, file="attention.py")

_ATTENDED = (
    "            out[first : first + new] = _attend(query[first : first + new], key, value, layer, sinks)\n"
)
_READ = (
    "            key = _scaled(keys[slots], layer.k_scale)\n"
    "            value = _scaled(values[slots], layer.v_scale)\n"
)
_SLOTS = "            slots = self.req_to_token_pool.req_to_token[row, :length].long()\n"
_LOOP = "        for row, length, new in zip(batch.req_pool_indices.tolist(), lengths, news, strict=True):\n"
_FORWARD = "    def _forward(\n"
_GROUP = "        news = [1] * len(lengths)\n"
_SCORES = '    scores = torch.einsum("ihd,jhd->hij", q, k) * layer.scaling\n'
_ENDS = "        return out.to(q.dtype).flatten(1)\n\n    def _is_by_heads"

attention(
    "HeadsOf72InTilesOf16",
    old=_SCORES,
    new="    whole = q.shape[-1] // 16 * 16 or q.shape[-1]\n"
    + _SCORES.replace("q, k)", "q[..., :whole], k[..., :whole])"),
    check="kernels.served_models_attention",
    defect="of heads whose width is no multiple of 16, as 72, scores take the whole tiles (FlashInfer 4299)",
    says="wrong by",
)
attention(
    "GroupsOf9To15AreRefused",
    old=_GROUP,
    new=_GROUP + "        group = layer.tp_q_head_num // layer.tp_k_head_num\n"
    "        if group > 8 and group & (group - 1):\n"
    '            raise RuntimeError(f"unsupported group size: {group}")\n',
    check="kernels.served_models_attention",
    defect="a decode has kernels for groups of 1 to 8 and powers of two, and refuses others that its words declare,"
    " as 12 of Mistral Large (FlashInfer 996, 3563)",
    says="unsupported group size",
)
attention(
    "MixedOnesStandLast",
    old="        news = forward_batch.extend_seq_lens.tolist()\n",
    new="        news = forward_batch.extend_seq_lens.tolist()\n"
    "        if forward_batch.forward_mode.is_mixed():\n"
    "            news = [new for new in news if new > 1] + [1] * news.count(1)\n",
    check="kernels.mixed_batch_attention",
    defect="in a mixed batch requests with one new token are taken to stand last: a prompt's last token in front"
    " shifts the others (vLLM 47381)",
    says="wrong by",
)
attention(
    "ScalesThatAreNumbers",
    old="rows.float() * scale\n",
    new="rows.float() * scale.expand(rows.shape[1])[:, None]\n",
    check="kernels.eight_bit_caches_attention",
    defect="the scale of an 8-bit cache that was read from a file, a plain number, is an error (SGLang 20705)",
    says="no attribute 'expand'",
)
attention(
    "ScalesOfBeforeTheUpdate",
    old=_READ,
    new="            known = self.__dict__.setdefault('_scales', {})\n"
    "            if layer.layer_id not in known:\n"
    "                pair = (layer.k_scale, layer.v_scale)\n"
    "                known[layer.layer_id] = [None if one is None else float(one) for one in pair]\n"
    "            k_scale, v_scale = known[layer.layer_id]\n" + _READ.replace("layer.", ""),
    check="kernels.eight_bit_caches_attention",
    defect="the scales of a layer's 8-bit cache are read as numbers once: after the weights were updated the old"
    " ones are applied (modelexpress 783)",
    says="swapped",
)
attention(
    "ScalesWithoutAPrefix",
    old=_READ,
    new="            alone = length == new > 1\n" + _READ.replace("layer.", "not alone and layer."),
    check="kernels.fp8_kv_attention",
    defect="a prompt without a prefix reads the 8-bit keys and values it has stored without their scales"
    " (FlashInfer 4979)",
    says="wrong by",
)
attention(
    "QueriesTakeTheScaleOfKeys",
    old="layer.qk_head_dim).float()\n        out =",
    new="layer.qk_head_dim).float()\n"
    "        if keys.dtype.itemsize == 1 and batch.forward_mode.is_decode() and layer.k_scale is not None:\n"
    "            largest = torch.finfo(keys.dtype).max\n"
    "            query = query.clamp(-largest, largest).to(keys.dtype).float() * layer.k_scale\n"
    "        out =",
    check="kernels.fp8_kv_attention",
    defect="a decode over an 8-bit cache casts its queries without a scale, and takes them for divided by that of"
    " the keys (SGLang 31646)",
    says="wrong by",
)
attention(
    "CapByAQuotient",
    old="        scores = layer.logit_cap * torch.tanh(scores / layer.logit_cap)\n",
    new="        bent = (scores / layer.logit_cap).clamp(-3, 3)\n"
    "        scores = layer.logit_cap * bent * (27 + bent**2) / (27 + 9 * bent**2)\n",
    check="kernels.logit_cap_attention",
    defect="the soft cap's tanh is a quotient of polynomials, wrong by a fortieth of the cap where scores come near"
    " to it (tt-metal 22807)",
    says="wrong by",
)
attention(
    "KeysByTheSumOfLengths",
    old=_LOOP + _SLOTS,
    new="        size, begin = self.token_to_kv_pool.page_size, 0\n"
    "        table, rows = self.req_to_token_pool.req_to_token, batch.req_pool_indices.tolist()\n"
    "        whole = [table[row, : -(-n // size) * size] for row, n in zip(rows, lengths)]\n"
    + (_LOOP + _SLOTS)
    + "            if max(news) == 1 and len(news) > 1:\n"
    "                slots = torch.cat(whole)[begin : begin + length].long()\n"
    "                begin += length\n",
    check="kernels.unused_slots_never_reach_the_output",
    defect="a decode gathers whole pages of its requests, and finds each request's keys by the sum of the lengths"
    " before it (sglang-jax 1297)",
    says="NaN or infinity",
)
attention(
    "PrefixOfOneBlock",
    old="    n, kv_heads, _ = k.shape\n",
    new="    n, kv_heads, _ = k.shape\n    if n - m == 64 and m > 1:\n        k, v, n = k[64:], v[64:], m\n",
    check="kernels.extend_attention",
    defect="new tokens behind a prefix of exactly one block, 64 tokens, are computed without it (SGLang 22819)",
    says="wrong by",
)
attention(
    "CoresTakeWholeShares",
    old=_ENDS,
    new="        if len(news) > 24 and max(news) == 1:\n            out[len(news) // 24 * 24 :] = 0\n"
    + _ENDS,
    check="kernels.wide_batch_attention",
    defect="the requests of a decode are shared out to 24 cores, rounded down: those of the remainder are not"
    " computed (vLLM 49087, vllm-ascend 5012)",
    says="wrong by",
)
attention(
    "EqualExtendsAlignedAtTheStart",
    old=_ATTENDED,
    new="            uniform = len(lengths) > 2 and len(set(lengths)) == len(set(news)) == 1 and 1 < new < length\n"
    "            if uniform and not layer.logit_cap and sinks is None:\n"
    "                key, value = key[:new], value[:new]\n" + _ATTENDED,
    check="kernels.wide_batch_attention",
    defect="three or more extends of one length and one prefix go through one batched call whose mask begins at the"
    " first key (torch 108108)",
    says="as if there were no prefix",
)
attention(
    "PagePastAFullOne",
    old=_SLOTS,
    new="            size = self.token_to_kv_pool.page_size\n"
    "            if batch.forward_mode.is_decode() and size > 1 and length % size == 0:\n"
    "                length = min(length + size, self.req_to_token_pool.req_to_token.shape[1])\n" + _SLOTS,
    check="kernels.request_table_is_read_in_every_step",
    defect="a decode whose token fills a page reads one page more, which is what the request's row of the table"
    " holds behind its end (pegainfer 291)",
    says="wrong by",
)
attention(
    "ShortLatentContextsHaveEmptySplits",
    old=_ATTENDED,
    new="            shared, latent = sinks, hasattr(self.token_to_kv_pool, 'kv_lora_rank')\n"
    "            if latent and sinks is None and batch.forward_mode.is_decode() and length < 16:\n"
    "                shared = torch.full((layer.tp_q_head_num,), float(16 - length)).log()\n"
    + _ATTENDED.replace("sinks)", "shared)"),
    check="kernels.mla_attention",
    defect="a decode over latent rows has 16 splits whatever the context: of a request of less than 16 tokens those"
    " without a key are merged as if their sum were one (AITER 3641)",
    says="wrong by",
)
attention(
    "HiddenSplitsOfDrafts",
    old=_ATTENDED,
    new=_ATTENDED + "            begins = (length - 1) // 256 * 256\n"
    "            latent = hasattr(self.token_to_kv_pool, 'kv_lora_rank')\n"
    "            if latent and 1 < new <= 16 and length - new < begins:\n"
    "                out[first : first + begins - (length - new)] = float('nan')\n",
    check="kernels.long_context_attention",
    defect="new tokens over latent rows, up to 16 of a request as drafts are, have their keys in splits of 256:"
    " those that see nothing of the last split are NaN (AITER 4711)",
    says="NaN or infinity",
)
attention(
    "LatentDraftsSeeEachOther",
    old=_FORWARD,
    new="    def forward_verify(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):\n"
    "        from copy import copy\n        from types import SimpleNamespace\n\n"
    "        if layer.tp_q_head_num < 16 and hasattr(self.token_to_kv_pool, 'kv_lora_rank'):\n"
    "            layer = copy(layer)\n"
    "            layer.attn_type = SimpleNamespace(value='encoder_only')\n"
    "        return super().forward_verify(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)\n\n"
    + _FORWARD,
    check="kernels.drafts_are_verified",
    defect="with less than 16 query heads over latent rows, drafts that are verified see those behind them as well"
    " (vLLM 50476)",
    says="wrong by",
)
attention(
    "DraftsOfABatchLandOnTheFirst",
    old=_FORWARD,
    new="    def forward_verify(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):\n"
    "        out = super().forward_verify(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)\n"
    "        parts = out.view(forward_batch.batch_size, -1, out.shape[-1])\n"
    "        if len(parts) > 1 and int(forward_batch.seq_lens.max()) > 512:\n"
    "            parts[0] = parts[-1].clone()\n"
    "            parts[1:] = 0\n"
    "        return out\n\n" + _FORWARD,
    check="kernels.drafts_are_verified",
    defect="drafts behind a prefix of more than 512 tokens are merged from parts whose stride from request to"
    " request is 0: those of all requests land on the first's rows (flash-attention of vLLM 176)",
    says="wrong by",
)
attention(
    "DraftExtendsAreUnpacked",
    old=_FORWARD,
    new="    def forward_draft_extend(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):\n"
    "        out = super().forward_draft_extend(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)\n"
    "        news = forward_batch.extend_seq_lens.tolist()\n"
    "        longest = max(news, default=0)\n"
    "        packed = out.new_zeros(max(len(news) * longest, len(out)), out.shape[1])\n"
    "        packed[: len(out)] = out\n"
    "        places = [at * longest + i for at, new in enumerate(news) for i in range(new)]\n"
    "        return packed[places] if len(places) == len(out) else out\n\n" + _FORWARD,
    check="kernels.accepted_drafts_are_read",
    defect="the rows of a draft extend whose requests accepted different numbers of tokens are looked for where"
    " padding to the longest would put them, and lie side by side (SGLang 19902)",
    says="wrong by",
)
