"""A second set: attention that goes wrong where two things meet, in split contexts, or between requests."""

from broken import Table, at

attention = Table("attention 2", "kernels", "attention.py")

_CAP = "    if layer.logit_cap:\n"
_SINKS = "    if sinks is not None:\n"
_SINK = "        sink = sinks.float().reshape(heads, 1, 1).expand(heads, m, 1)\n"
_WINDOW = "        hidden = hidden | (other < position - window)\n"
_HAS_WINDOW = "    if window is not None and window >= 0:\n"
_MASK = "    hidden = other > position\n"
_SLOTS = "            slots = self.req_to_token_pool.req_to_token[row, :length].long()\n"
_KEY = "            key = _scaled(keys[slots], layer.k_scale)\n"
_VALUE = "            value = _scaled(values[slots], layer.v_scale)\n"
_OUT = '    return torch.einsum("hij,jhd->ihd", weights, v)'
_SCORES = '    scores = torch.einsum("ihd,jhd->hij", q, k) * layer.scaling\n'
_FIRST = "        first = 0\n        for row, length"
_BEND = "        scores = layer.logit_cap * torch.tanh(scores / layer.logit_cap)\n"
_SOFTMAX = "        weights = torch.softmax(torch.cat((scores, sink), dim=-1), dim=-1)[..., :n]\n"

# Split decodes: a second kernel for long contexts, which lacks something

attention("SplitDecodeWithoutWindow", "decodes of more than 1024 tokens take a split kernel, which has no window",
          _HAS_WINDOW, "    if window is not None and window >= 0 and not (m == 1 and n > 1024):\n")  # fmt: skip
attention("SplitDecodeWithoutCap", "decodes of more than 1024 tokens take a split kernel, which has no soft cap",
          _CAP, "    if layer.logit_cap and not (m == 1 and n > 1024):\n")  # fmt: skip
attention("SinkOfEverySplit", "decodes are split by 512 tokens, and each part adds the sink again", _SINK,
          _SINK + "        sink = sink + (torch.log(torch.tensor(-(-n // 512))) if m == 1 else 0.0)\n")  # fmt: skip
attention("SplitDecodeWithoutValueScale", "decodes of more than 512 tokens leave the scale of 8-bit values out",
          _VALUE, _VALUE.replace("layer.v_scale", "None if new == 1 and length > 512 else layer.v_scale"))  # fmt: skip
attention("SplitsOfTheMeanLength", "the grid covers twice the mean length of a batch: a longer decode loses its first tokens",
          _SLOTS, _SLOTS + "            if new == 1 and length > 64:\n"
          "                slots = slots[-max(64, 2 * sum(lengths) // len(lengths)) :]\n")  # fmt: skip
attention("SplitsOfTheFirstRequest", "how many parts a decode has is taken from the first request of the batch",
          _SLOTS, _SLOTS + "            if new == 1:\n                slots = slots[: -(-lengths[0] // 64) * 64]\n")  # fmt: skip
attention("LatentOver4096Forgotten", "a decode of a latent cache sees the first 4096 tokens, and itself", _SLOTS,
          _SLOTS + "            if new == 1 and length > 4096 and hasattr(self.token_to_kv_pool, 'kv_lora_rank'):\n"
          "                slots = torch.cat((slots[:4095], slots[-1:]))\n")  # fmt: skip
attention("LatentBatchOver64Wraps", "a latent decode of more than 64 requests reads the table of request i - 64", _FIRST,
          "        rows = batch.req_pool_indices.clone()\n"
          "        if len(rows) > 64 and hasattr(self.token_to_kv_pool, 'kv_lora_rank'):\n"
          "            rows[64:] = rows[: len(rows) - 64].clone()[: len(rows[64:])]\n" + _FIRST,
          "in zip(batch.req_pool_indices.tolist(), lengths", "in zip(rows.tolist(), lengths")  # fmt: skip

# Pairs

attention("CapBendsTheSink", "a layer with cap and sinks bends its sinks as well", _SINK,
          _SINK + "        if layer.logit_cap:\n            sink = layer.logit_cap * torch.tanh(sink / layer.logit_cap)\n")  # fmt: skip
attention("CapBeforeTheKeysScale", "scores of an 8-bit cache are bent before the scale of the keys is put on", _BEND,
          "        ks = 1.0 if layer.k_scale is None else float(layer.k_scale)\n"
          "        scores = layer.logit_cap * torch.tanh(scores / ks / layer.logit_cap) * ks\n")  # fmt: skip
attention("MixedDecodeWithoutWindow", "in a mixed batch the decoding requests have no window", _HAS_WINDOW,
          "    if window is not None and window >= 0 and not (m == 1 and _MIXED[0]):\n",
          "def _attend(\n", "_MIXED = [False]\n\n\ndef _attend(\n", _FIRST,
          "        _MIXED[0] = len(set(news)) > 1 and 1 in news\n" + _FIRST)  # fmt: skip
attention("WindowOfOneKeyHead", "with one key head for more than 4 query heads the window is left out", _HAS_WINDOW,
          "    if window is not None and window >= 0 and not (kv_heads == 1 and heads > 4):\n")  # fmt: skip
attention("WindowFromItsPage", "a window begins with the page its first token is in", _WINDOW,
          "        start = position - window\n        start = start.clamp(min=0) // _PAGE[0] * _PAGE[0]\n"
          "        hidden = hidden | (other < start)\n", "def _attend(\n", "_PAGE = [1]\n\n\ndef _attend(\n", _FIRST,
          "        _PAGE[0] = self.token_to_kv_pool.page_size\n" + _FIRST)  # fmt: skip
attention("SinksOverValuesOfOtherWidth", "where values are narrower than keys the sinks are left out", _SINKS,
          "    if sinks is not None and v.shape[-1] == q.shape[-1]:\n")  # fmt: skip
attention("CapOverValuesOfOtherWidth", "where values are narrower than keys the soft cap is left out", _CAP,
          "    if layer.logit_cap and v.shape[-1] == q.shape[-1]:\n")  # fmt: skip
attention("EightBitOddGroups", "an 8-bit cache with groups of 3, 5 or 7 query heads reads the key head of a group of 4 or 8",
          "    k = k.repeat_interleave(heads // kv_heads, dim=1)\n",
          "    group = heads // kv_heads\n    if layer.k_scale is not None and group in (3, 5, 7):\n"
          "        k = k[:, torch.arange(heads) // (group + 1)]\n    else:\n        k = k.repeat_interleave(group, dim=1)\n")  # fmt: skip
attention("EightBitPrefixByTheNewTokensScale", "where values have a scale of their own, the prefix of a chunk takes the keys' one",
          _VALUE, _VALUE + "            if layer.v_scale is not None and 1 < new < length:\n"
          "                value[: length - new] *= layer.k_scale / layer.v_scale\n")  # fmt: skip

# Packed heads, cascades and tables

attention("PackedRowsByAShift", "the query heads of a group are packed into rows, whose position is found by a shift: wrong for groups of 3, 5, 6, 7",
          _MASK, """    group = heads // kv_heads
    packed = torch.arange(m)[None, :] * group + torch.arange(heads)[:, None] % group
    seen = (n - m + (packed >> (group.bit_length() - 1))).clamp(max=n - 1)
    hidden = other > (seen[:, :, None] if m > 1 else position)
""")  # fmt: skip
attention("CascadeByTheFirstPage", "requests whose first 16 slots agree are taken to share all of the shorter one's prefix",
          _SLOTS, _SLOTS + """\
            if first == 0 and row == batch.req_pool_indices.tolist()[0]:
                shared, common = slots, length - new
            elif min(length - new, common) > 16 and torch.equal(slots[:16], shared[:16]):
                slots = torch.cat((shared[: min(length - new, common)], slots[min(length - new, common) :]))
""")  # fmt: skip
attention("CascadeByTheLength", "in an extend requests with prefixes of one length are taken to share them", _SLOTS,
          _SLOTS + """\
            if first == 0:
                self._step = {}
            prefix = length - new
            if new > 1 and prefix > 0:
                slots = torch.cat((self._step.setdefault(prefix, slots)[:prefix], slots[prefix:]))
""")  # fmt: skip
attention("TableKeptByLength", "the slots of a request are kept by its row and length, which a later request may have too",
          _SLOTS, _SLOTS + "            slots = self.__dict__.setdefault('_kept', {}).setdefault((row, length), slots)\n",
          levels="kernels graphs")  # fmt: skip
attention("LengthsKeptByBatch", "a decode's lengths are kept with the batch object, which a graph fills again for each step",
          "        lengths = forward_batch.seq_lens.tolist()\n        news = [1] * len(lengths)\n",
          "        lengths = getattr(forward_batch, '_lengths', None) or forward_batch.seq_lens.tolist()\n"
          "        forward_batch._lengths = lengths\n        news = [1] * len(lengths)\n", levels="kernels graphs")  # fmt: skip
attention("DenominatorIn16Bits", "the sum of a head's weights is added up in the type of 16-bit queries", "        weights = torch.softmax(scores, dim=-1)\n",
          """        raised = torch.exp(scores - scores.amax(-1, keepdim=True))
        total = torch.zeros(raised.shape[:-1]).bfloat16()
        for part in raised.split(16, dim=-1):
            total = (total + part.sum(-1).bfloat16()).bfloat16()
        weights = raised / (total.float() if _HALF[0] else raised.sum(-1))[..., None]
""", "def _attend(\n", "_HALF = [False]\n\n\ndef _attend(\n", _FIRST, "        _HALF[0] = q.element_size() == 2\n" + _FIRST)  # fmt: skip
attention("CrossAttentionIsSelfAttention", "cross attention is declared, and computed as causal attention over the request's own tokens",
          at("platform.py", '"cross_attention", ', ""),
          levels="contract kernels")  # fmt: skip
