"""Attention, tenth set: prompts beyond their window, pages past a request's end, splits that are empty, stale or
hidden, queries in 8 bits, draft extends of several lengths, encoders in one batch. Names in brackets are bugs of
other projects that a defect is modelled on."""

from __future__ import annotations

from broken import Table
from of_ninth_attention import ATTENDED
from of_sixth_attention import ATTEND, FORWARD, KEY, VALUE

attention = Table("attention 10", "kernels", "attention.py")

QUERY = "        query = q.reshape(-1, layer.tp_q_head_num, layer.qk_head_dim).float()\n        out ="
SLOTS = "            slots = self.req_to_token_pool.req_to_token[row, :length].long()\n"
LATENT = "hasattr(self.token_to_kv_pool, 'kv_lora_rank')"

attention(
    "PromptsBeyondTheirWindow",
    "of a prompt that is longer than its layer's window the queries past as many as the window holds are not "
    "computed (nntrainer 3989)",
    ATTENDED,
    ATTENDED + "            window = layer.sliding_window_size\n"
    "            if window is not None and 0 < window < new - 1:\n"
    "                out[first + window + 1 : first + new] = 0\n",
)
attention(
    "PagePastAFullOne",
    "a decode whose token fills a page reads one page more, which is what the request's row of the table holds "
    "behind its end (pegainfer 291)",
    SLOTS,
    "            size = self.token_to_kv_pool.page_size\n"
    "            if batch.forward_mode.is_decode() and size > 1 and length % size == 0:\n"
    "                length = min(length + size, self.req_to_token_pool.req_to_token.shape[1])\n" + SLOTS,
)
attention(
    "ShortLatentContextsHaveEmptySplits",
    "a decode over latent rows has 16 splits whatever the context: of a request of less than 16 tokens those "
    "without a key are merged as if their sum were one (AITER 3641)",
    ATTENDED,
    "            shared = sinks\n"
    f"            if {LATENT} and sinks is None and batch.forward_mode.is_decode() and length < 16:\n"
    "                shared = torch.full((layer.tp_q_head_num,), float(16 - length)).log()\n"
    + ATTENDED.replace("layer, sinks", "layer, shared"),
)
attention(
    "SplitsOfTheCallBefore",
    "the splits of a decode over latent rows are merged before the last is written: where a request has more than "
    "256 tokens it is that of the call before (AITER 4350)",
    ATTENDED,
    f"            if {LATENT} and batch.forward_mode.is_decode() and length > 256 and sinks is None:\n"
    "                whole = (length - 1) // 256 * 256\n"
    "                tail, weight = _split(query[first : first + 1], key[whole:], value[whole:], layer)\n"
    "                head, other = _split(query[first : first + 1], key[:whole], value[:whole], layer)\n"
    "                kept = self.__dict__.setdefault('_tails', {})\n"
    "                before = kept.get((first, tail.shape), (tail, weight))\n"
    "                kept[first, tail.shape] = tail, weight\n"
    "                tail, weight = before\n"
    "                total = torch.logaddexp(weight, other)\n"
    "                out[first : first + 1] = tail * (weight - total).exp() + head * (other - total).exp()\n"
    "                first += new\n"
    "                continue\n" + ATTENDED,
    ATTEND,
    "def _split(\n"
    "    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layer: Any\n"
    ") -> tuple[torch.Tensor, torch.Tensor]:\n"
    '    """What one token sees of some keys, and the logarithm of the sum of its weights, [1, Hq, 1]."""\n'
    '    scores = torch.einsum("ihd,jd->ihj", q, k[:, 0]) * layer.scaling\n'
    "    if layer.logit_cap:\n"
    "        scores = layer.logit_cap * torch.tanh(scores / layer.logit_cap)\n"
    '    out = torch.einsum("ihj,jd->ihd", scores.softmax(-1), v[:, 0])\n'
    "    return out, scores.logsumexp(-1, keepdim=True)\n\n\n" + ATTEND,
)
attention(
    "HiddenSplitsOfDrafts",
    "new tokens over latent rows, up to 16 of a request as drafts are, have their keys in splits of 256: those that"
    " see nothing of the last split are NaN (AITER 4711)",
    ATTENDED,
    ATTENDED + "            begins = (length - 1) // 256 * 256\n"
    f"            if {LATENT} and 1 < new <= 16 and length - new < begins:\n"
    "                out[first : first + begins - (length - new)] = float('nan')\n",
)
attention(
    "QueriesTakeTheScaleOfKeys",
    "a decode over an 8-bit cache casts its queries without a scale, and takes them for divided by that of the keys"
    " (SGLang 31646)",
    QUERY,
    "        query = q.reshape(-1, layer.tp_q_head_num, layer.qk_head_dim).float()\n"
    "        if keys.dtype.itemsize == 1 and batch.forward_mode.is_decode() and layer.k_scale is not None:\n"
    "            largest = torch.finfo(keys.dtype).max\n"
    "            query = query.clamp(-largest, largest).to(keys.dtype).float() * layer.k_scale\n"
    "        out =",
)
attention(
    "DraftExtendsAreUnpacked",
    "the rows of a draft extend whose requests accepted different numbers of tokens are looked for where padding to"
    " the longest would put them, and lie side by side: the later ones are others' rows or zeros (SGLang 19902)",
    FORWARD,
    "    def forward_draft_extend(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):\n"
    "        out = super().forward_draft_extend(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)\n"
    "        news = forward_batch.extend_seq_lens.tolist()\n"
    "        longest = max(news, default=0)\n"
    "        packed = out.new_zeros(max(len(news) * longest, len(out)), out.shape[1])\n"
    "        packed[: len(out)] = out\n"
    "        places = [at * longest + i for at, new in enumerate(news) for i in range(new)]\n"
    "        return packed[places] if len(places) == len(out) else out\n\n" + FORWARD,
)
attention(
    "EncodersAreFilledUp",
    "in an encoder the requests of a batch are filled up with zeros to the longest, and see what fills them: a "
    "text's embedding depends on its neighbours (tt-xla 2479, candle 1798)",
    KEY + VALUE,
    KEY + VALUE + "            missing = max(lengths) - length\n"
    "            if missing and getattr(layer.attn_type, 'value', None) == 'encoder_only':\n"
    "                key = torch.cat((key, key.new_zeros(missing, *key.shape[1:])))\n"
    "                value = torch.cat((value, value.new_zeros(missing, *value.shape[1:])))\n",
)
