"""Attention whose features are wrong alone in some range, or in pairs, or for some layers."""

from broken import Table

features = Table("attention features", "kernels", "attention.py")

_SCORES = '    scores = torch.einsum("ihd,jhd->hij", q, k) * layer.scaling\n'
_CAP = "    if layer.logit_cap:\n"
_BENT = "        scores = layer.logit_cap * torch.tanh(scores / layer.logit_cap)\n"
_SINKS = "    if sinks is not None:\n"
_SINK = "        sink = sinks.float().reshape(heads, 1, 1).expand(heads, m, 1)\n"
_WINDOW = "        hidden = hidden | (other < position - window)\n"
_WINDOWED = "    window = layer.sliding_window_size\n"
_HAS_WINDOW = "layer.sliding_window_size is not None and layer.sliding_window_size >= 0"
_SOFTMAX = "        weights = torch.softmax(scores, dim=-1)\n"
_ENCODER = '    if getattr(layer.attn_type, "value", None) == "encoder_only":\n'
_KEY = "            key = _scaled(keys[slots], layer.k_scale)\n"
_VALUE = "            value = _scaled(values[slots], layer.v_scale)\n"
_OUT = '    return torch.einsum("hij,jhd->ihd", weights, v)'

# Windows

features(
    "WindowUpToBlockEdge",
    "a window of 64 or more begins at the block of 64 that its first token is in",
    _WINDOW,
    "        start = position - window\n"
    "        start = start // 64 * 64 if window >= 64 else start\n        hidden = hidden | (other < start)\n",
)
features(
    "WindowOver1024Ignored",
    "windows above 1024 are not looked at (Mistral and Gemma-2 have 4096)",
    "    if window is not None and window >= 0:\n",
    "    if window is not None and 0 <= window <= 1024:\n",
)
features(
    "WindowOffByOneInDecode",
    "a decoding token sees one position more than its window",
    _WINDOW,
    "        hidden = hidden | (other < position - window - int(m == 1))\n",
)
features(
    "WindowOffByOneFrom127",
    "windows of 100 and more hold one token too few, as if the window counted the token itself",
    _WINDOW,
    "        hidden = hidden | (other < position - window + (window >= 100))\n",
)
features(
    "WindowHidesPrefixOfLongChunk",
    "in a chunk longer than its window no token sees the prefix",
    _WINDOW,
    _WINDOW + "        if m > window > 0:\n            hidden = hidden | (other < n - m)\n",
)
features(
    "WindowFromLastQuery",
    "all tokens of an extend have the window of the last",
    _WINDOW,
    "        hidden = hidden | (other < n - 1 - window)\n        hidden[other == position] = False\n",
)
features(
    "WindowOfFirstLayer",
    "the window of the layer that was called first serves all layers",
    "        values = self.token_to_kv_pool.get_value_buffer(layer.layer_id)\n",
    """        values = self.token_to_kv_pool.get_value_buffer(layer.layer_id)
        self._window = getattr(self, "_window", layer.sliding_window_size)
        import copy

        layer = copy.copy(layer)
        layer.sliding_window_size = self._window
""",
)

# Caps

features(
    "CapWithoutGroups",
    "the soft cap is left out where query heads share a key head in groups of more than 1",
    _CAP,
    "    if layer.logit_cap and heads == kv_heads:\n",
)
features(
    "CapOnlyInDecode", "the soft cap is left out of an extend", _CAP, "    if layer.logit_cap and m == 1:\n"
)
features(
    "CapOver30Ignored",
    "caps above 30 are taken for none (Gemma-2 has 50)",
    _CAP,
    "    if 0 < layer.logit_cap <= 30:\n",
)
features(
    "CapClamps", "scores are clamped to the cap, not bent", _BENT,
    "        scores = scores.clamp(-layer.logit_cap, layer.logit_cap)\n",
)  # fmt: skip
features(
    "CapBeforeScale",
    "the cap bends the scores before they are scaled",
    _SCORES,
    '    scores = torch.einsum("ihd,jhd->hij", q, k) * (1 if layer.logit_cap else layer.scaling)\n',
    _BENT,
    _BENT + "        scores = scores * layer.scaling\n",
)
features(
    "CapAfterMask",
    "hidden scores are bent as well: a hidden token weighs exp(-cap) and not nothing",
    '    scores = scores.masked_fill(hidden, float("-inf"))\n',
    '    scores = scores.masked_fill(hidden, -layer.logit_cap if layer.logit_cap else float("-inf"))\n',
)

# Sinks

features(
    "SinkWithoutMaximum",
    "exp(sink) is added to weights that were scaled by the largest score only; a large sink overflows",
    "        weights = torch.softmax(torch.cat((scores, sink), dim=-1), dim=-1)[..., :n]\n",
    """        top = scores.amax(-1, keepdim=True)
        raised = torch.exp(scores - top)
        weights = raised / (raised.sum(-1, keepdim=True) + torch.exp(sink) / torch.exp(top))
""",
)
features(
    "SinksOfKeyHeads",
    "a query head takes the sink of its key head's first query head",
    _SINK,
    "        group = heads // kv_heads\n        sinks = sinks[torch.arange(heads) // group * group]\n"
    + _SINK,
)
features(
    "SinksOfFirstLayer",
    "the sinks that came first are kept for all layers",
    _SINKS,
    "    if sinks is not None:\n        sinks = _KEPT.setdefault((heads, kv_heads), sinks)\n",
    "def _attend(\n",
    "_KEPT: dict = {}\n\n\ndef _attend(\n",
)
features(
    "SinksOfFloat32Only",
    "sinks in bfloat16 (gpt-oss keeps them so) are read as if they were float32",
    _SINK,
    "        if sinks.dtype != torch.float32:\n"
    "            sinks = torch.cat((sinks, sinks)).view(torch.float32)[:heads]\n" + _SINK,
)
features(
    "SinkInNumerator", "the sink weighs for the first value as well",
    "        weights = torch.softmax(torch.cat((scores, sink), dim=-1), dim=-1)[..., :n]\n",
    """        weights = torch.softmax(torch.cat((scores, sink), dim=-1), dim=-1)
        weights[..., 0] += weights[..., n]
        weights = weights[..., :n]
""",
)  # fmt: skip
features(
    "SinksInDecodeOnly",
    "an extend against a prefix leaves the sinks out",
    _SINKS,
    "    if sinks is not None and (m == 1 or m == n):\n",
)
features(
    "SinksLostInMixedBatches",
    "a mixed batch leaves the sinks out",
    "        news = forward_batch.extend_seq_lens.tolist()\n",
    "        news = forward_batch.extend_seq_lens.tolist()\n"
    "        if forward_batch.forward_mode.is_mixed():\n            kwargs = {}\n",
)

# Pairs

features(
    "SinkWithoutWindow", "a layer with a window leaves the sinks out", _SINKS,
    f"    if sinks is not None and not ({_HAS_WINDOW}):\n",
)  # fmt: skip
features(
    "CapWithoutWindow", "a layer with a window leaves the cap out", _CAP,
    f"    if layer.logit_cap and not ({_HAS_WINDOW}):\n",
)  # fmt: skip
features(
    "CapWithoutSinks",
    "a layer with sinks leaves the cap out",
    _CAP,
    "    if layer.logit_cap and sinks is None:\n",
)
features(
    "WindowWithoutScale",
    "a layer with scales for its 8-bit cache does not look at its window",
    _WINDOWED,
    "    window = layer.sliding_window_size if layer.k_scale is None else -1\n",
)
features(
    "CapWithoutScale",
    "a layer with scales for its 8-bit cache does not look at its cap",
    _CAP,
    "    if layer.logit_cap and layer.k_scale is None:\n",
)
features(
    "SinkWithoutScale",
    "a layer with scales for its 8-bit cache does not look at its sinks",
    _SINKS,
    "    if sinks is not None and layer.k_scale is None:\n",
)
features(
    "ScaleWithoutWindow",
    "where the layer has a window the keys of an 8-bit cache are not scaled",
    _KEY,
    f"            key = _scaled(keys[slots], None if {_HAS_WINDOW} else layer.k_scale)\n",
)
features(
    "ScaleOfKeysForMany",
    "where query heads share a key head, values take the scale of the keys",
    _VALUE,
    "            many = layer.tp_q_head_num > layer.tp_k_head_num\n"
    "            value = _scaled(values[slots], layer.k_scale if many else layer.v_scale)\n",
)
features(
    "ScaleOnlyWhereStored",
    "the prefix of an extend is read without its scale",
    _KEY,
    _KEY + "            if layer.k_scale is not None and new > 1:\n"
    "                key[: length - new] = keys[slots[: length - new]].float()\n",
)
features(
    "ScaleOfFirstLayer",
    "the scales of the layer that was called first serve all layers",
    _KEY,
    '            self._k = getattr(self, "_k", layer.k_scale)\n            key = _scaled(keys[slots], self._k)\n',
)
features(
    "E5M2ReadAsE4M3",
    "an 8-bit cache is always read as e4m3",
    _KEY,
    "            if keys.dtype == torch.float8_e5m2:\n"
    "                keys = keys.view(torch.float8_e4m3fn)\n" + _KEY,
)
features(
    "ChunkedE5M2Values",
    "the values of an e5m2 cache are read with three bits of exponent less where the context is over 64",
    _VALUE,
    _VALUE + "            if values.dtype == torch.float8_e5m2 and length > 64:\n"
    "                value = value.to(torch.float8_e4m3fn).float()\n",
)

# MLA

_LATENT = "layer.qk_head_dim != layer.v_head_dim and layer.tp_k_head_num == 1"
features(
    "RopeOf64Only",
    "the rotated part of a latent row counts only where it has 64 numbers (MiniCPM3 has 32)",
    _SCORES,
    f"    if {_LATENT} and layer.qk_head_dim - layer.v_head_dim != 64:\n"
    "        q, k = q[..., : layer.v_head_dim], k[..., : layer.v_head_dim]\n" + _SCORES,
)
features(
    "LatentScaleFromRow",
    "a latent layer's scores are scaled by the width of the row (576), not by the layer's scaling (192)",
    _SCORES,
    f"    scale = layer.qk_head_dim**-0.5 if {_LATENT} else layer.scaling\n"
    '    scores = torch.einsum("ihd,jhd->hij", q, k) * scale\n',
)
features(
    "LatentHeadsBy64",
    "latent heads are computed in a first tile of 64; a last one of 128 repeats the first",
    _OUT,
    f"""    result = torch.einsum("hij,jhd->ihd", weights, v)
    if {_LATENT} and heads > 64:
        result[:, 64:] = result[:, : heads - 64]
    return result""",
)
features(
    "LatentRank512",
    "a latent of another rank than 512 (MiniCPM3: 256) is cut to a multiple of 512",
    _OUT,
    f"""    result = torch.einsum("hij,jhd->ihd", weights, v)
    if {_LATENT} and 128 <= layer.v_head_dim < 512:
        result[..., 128:] = 0
    return result""",
)
features(
    "LatentPrefixByPages",
    "an extend over a latent cache sees whole pages of 16 of its prefix",
    "    hidden = other > position\n",
    "    hidden = other > position\n"
    f"    if {_LATENT} and m > 1:\n"
    "        hidden = hidden | ((other >= (n - m) // 16 * 16) & (other < n - m))\n",
)
features(
    "LatentEightBitRope",
    "of a latent row in 8 bits the rotated part is left out",
    _SCORES,
    f"    if {_LATENT} and _EIGHT[0]:\n"
    "        q, k = q[..., : layer.v_head_dim], k[..., : layer.v_head_dim]\n" + _SCORES,
    _KEY,
    "            _EIGHT[0] = keys.element_size() == 1\n" + _KEY,
    "def _attend(\n",
    "_EIGHT = [False]\n\n\ndef _attend(\n",
)

# Encoders

features(
    "EncoderOfEvenLengthCausal",
    "an encoder is causal for requests of an even length",
    "        hidden = torch.zeros_like(hidden)\n",
    "        hidden = torch.zeros_like(hidden) if m % 2 else hidden\n",
)
features(
    "EncoderWithoutGroups",
    "an encoder with grouped heads is causal",
    _ENCODER,
    '    if getattr(layer.attn_type, "value", None) == "encoder_only" and heads == kv_heads:\n',
)
features(
    "EncoderOver128Causal",
    "an encoder's tokens after the first 128 see only those before them",
    "        hidden = torch.zeros_like(hidden)\n",
    "        hidden = hidden & (position >= 128)\n",
)

# Softmax

features(
    "SoftmaxWithoutMaximum",
    "weights are exp(score) over their sum: scores above 88 overflow (Qwen2's biases give hundreds)",
    _SOFTMAX,
    "        weights = torch.exp(scores) / torch.exp(scores).sum(-1, keepdim=True)\n",
)
features(
    "MaximumStartsAtZero",
    "the running maximum begins at 0: where all scores are far below, the sum is 0",
    _SOFTMAX,
    "        top = scores.amax(-1, keepdim=True).clamp(min=0)\n"
    "        weights = torch.exp(scores - top)\n        weights = weights / weights.sum(-1, keepdim=True)\n",
)
features(
    "ScoresInHalf",
    "scores are kept in float16",
    _SCORES,
    _SCORES + "    scores = scores.half().float()\n",
)
features(
    "WeightsInBfloat16",
    "weights are rounded to bfloat16 before they are multiplied by values of float32",
    _OUT,
    '    return torch.einsum("hij,jhd->ihd", weights.bfloat16().float(), v)',
)
features(
    "MaskIsAFiniteNumber",
    "hidden scores are -10, which weighs something",
    '    scores = scores.masked_fill(hidden, float("-inf"))\n',
    "    scores = scores.masked_fill(hidden, -1e1)\n",
)
