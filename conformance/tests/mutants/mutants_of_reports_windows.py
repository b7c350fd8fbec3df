"""Level 4 mutants: windows, sinks and long contexts as other projects had them wrong; the number of the report stands
behind the defect."""

from __future__ import annotations

from functools import partial

from patched_reference import patch, patched

__getattr__ = patched

attention = partial(patch, __name__, file="attention.py")

_ATTENDED = (
    "            out[first : first + new] = _attend(query[first : first + new], key, value, layer, sinks)\n"
)
_KEY = "            key = _scaled(keys[slots], layer.k_scale)\n"
_VALUE = "            value = _scaled(values[slots], layer.v_scale)\n"
_WEIGHED = '    return torch.einsum("hij,jhd->ihd", weights, v)'
_SOFTMAX = "        weights = torch.softmax(scores, dim=-1)\n"
_LONG, _EDGES = "kernels.features_at_their_ranges", "kernels.features_at_their_ranges"
_PAIRS, _WINDOW = "kernels.pairs_of_features", "kernels.sliding_window_attention"

attention(
    "WindowStaysInTheMask",
    old="    if window is not None and window >= 0:\n        hidden = hidden | (",
    new="    hidden = globals().setdefault('_kept', {}).setdefault((m, n, bool(hidden.any())), hidden)\n"
    "    if window is not None and window >= 0:\n        hidden |= (",
    check="kernels.layers_differ",
    defect="the window is put into the kept causal mask in place: layers without one have it afterwards (vllm-ascend"
    " 1678)",
    says="wrong by",
)
attention(
    "ShortRequestsSeeThePaddingSlot",
    old=_KEY,
    new="            window = layer.sliding_window_size\n"
    "            if new == 1 and window is not None and 0 <= length <= window < max(lengths) - 1:\n"
    "                slots = torch.cat((slots.new_zeros(1), slots))\n" + _KEY,
    check=_WINDOW,
    defect="a decode of a request shorter than the window sees the padding slot where another is longer than it"
    " (vLLM 41757)",
    says="wrong by",
)
attention(
    "PromptsBeyondTheirWindow",
    old=_ATTENDED,
    new=_ATTENDED + "            window = layer.sliding_window_size\n"
    "            if window is not None and 0 < window < new - 1:\n"
    "                out[first + window + 1 : first + new] = 0\n",
    check=_WINDOW,
    defect="of a prompt that is longer than its layer's window the queries past as many as the window holds are not"
    " computed (nntrainer 3989)",
    says="wrong by",
)
attention(
    "OneTokenExtendsSeeOneMore",
    old=_ATTENDED,
    new="            window, wider = layer.sliding_window_size, layer\n"
    "            if not batch.forward_mode.is_decode() and new == 1 and window is not None and window >= 0:\n"
    "                wider = __import__('copy').copy(layer)\n"
    "                wider.sliding_window_size = window + 1\n" + _ATTENDED.replace("layer", "wider"),
    check="kernels.accepted_drafts_are_read",
    defect="an extend by one token, as a decode among prompts is made into, has a window one too wide (SGLang 37505)",
    says="wrong by",
)
attention(
    "EmptySplitsOfAWindow",
    old=_WEIGHED,
    new="    seen = n if window is None or window < 0 else min(n, window + 1)\n"
    "    splits = max(1, n // 128)\n"
    "    if m == 1 and seen < n and splits * -(-seen // splits) - seen >= -(-seen // splits):\n"
    "        total = torch.logsumexp(scores, dim=-1, keepdim=True).exp()\n"
    "        weights = weights * (total / (total + 1))\n" + _WEIGHED,
    check=_EDGES,
    defect="a decode splits keys by the context's length, and splits that a short window leaves empty are merged as"
    " if they held something (vLLM 47188)",
    says="wrong by",
)
attention(
    "BlocksBeforeTheWindowAreNaN",
    old=_SOFTMAX,
    new=_SOFTMAX + "        if m > 1 and window is not None and window >= 0:\n"
    "            gone = (position[:, 0] - window) >= 256\n"
    "            weights = weights.masked_fill(gone[None, :, None], float('nan'))\n",
    check=_EDGES,
    defect="in an extend, rows whose window leaves out the whole first block of 256 keys become NaN (SGLang 38142,"
    " AITER 2505)",
    says="NaN or infinity",
)
attention(
    "PrefixMergedByPowersOfTwo",
    old=_WEIGHED,
    new="    p = n - m\n"
    "    if m > 1 and p >= 2048 and sinks is None:\n"
    "        parts = scores[..., :p], scores[..., p:]\n"
    "        share = torch.stack([torch.logsumexp(one, -1) for one in parts]) / 0.6931471805599453\n"
    "        shares = torch.softmax(share, dim=0)[..., None]\n"
    "        weights = torch.cat([torch.softmax(one, -1) * own for one, own in zip(parts, shares)], -1)\n"
    + _WEIGHED,
    check=_LONG,
    defect="new tokens behind a prefix of 2,048 or more are merged with it by sums in base two taken for base e"
    " (SGLang 40903, vLLM 52796)",
    says="wrong by",
)
attention(
    "NoPrefixBesideALongOne",
    old=_ATTENDED,
    new=_ATTENDED + "            if new == length > 1 and max(n - m for n, m in zip(lengths, news)) >= 512:\n"
    "                out[first : first + new] *= 0.5\n",
    check=_LONG,
    defect="a request without a prefix, in a batch where another has one of 512 tokens or more, is merged with what"
    " no part wrote (vLLM 49294)",
    says="wrong by",
)
attention(
    "SinkBesideAnEmptyTile",
    old=_WEIGHED,
    new="    if sinks is not None and m > 1 and window is not None and window >= 0:\n"
    "        first = torch.arange(m) // 64 * 64 + n - m - window\n"
    "        behind = (first.clamp(min=0) // 32 + 1) * 32\n"
    "        empty = position[:, 0] - window >= behind\n"
    "        weights = weights.masked_fill(empty[None, :, None], float('nan'))\n" + _WEIGHED,
    check=_PAIRS,
    defect="in an extend the tile that adds the sinks, of 32 keys, is the first that any of 64 queries sees: queries"
    " whose window leaves it out are NaN (TensorRT-LLM 19220)",
    says="NaN or infinity",
)
attention(
    "WindowOverNarrowValues",
    old=_VALUE,
    new=_VALUE + "            window, wide = layer.sliding_window_size, keys.shape[-1]\n"
    "            if window is not None and window >= 0 and values.shape[-1] < wide:\n"
    "                _, heads, narrow = values.shape\n"
    "                start = slots[:, None, None] * heads * wide + torch.arange(heads)[:, None] * narrow\n"
    "                where = (start + torch.arange(narrow)) % values.numel()\n"
    "                value = _scaled(values.reshape(-1)[where], layer.v_scale)\n",
    check=_PAIRS,
    defect="in layers with a window rows of values are taken to be as wide as those of keys: narrower ones are read"
    " from elsewhere (SGLang 24582)",
    says="NaN or infinity",
)
attention(
    "SinksOfTheFirstRank",
    old="        sink = sinks.float().reshape(",
    new="        sink = sinks.as_strided(sinks.shape, sinks.stride(), 0).float().reshape(",
    check="kernels.sink_attention",
    defect="sinks that are a part of those of all ranks are read from the first on (SGLang 35092)",
    says="wrong by",
)
attention(
    "EncodersAreFilledUp",
    old=_KEY + _VALUE,
    new=_KEY + _VALUE + "            missing = max(lengths) - length\n"
    "            if missing and getattr(layer.attn_type, 'value', None) == 'encoder_only':\n"
    "                key = torch.cat((key, key.new_zeros(missing, *key.shape[1:])))\n"
    "                value = torch.cat((value, value.new_zeros(missing, *value.shape[1:])))\n",
    check="kernels.encoder_attention",
    defect="in an encoder the requests of a batch are filled up with zeros to the longest, and see what fills them:"
    " a text's embedding depends on its neighbours (tt-xla 2479, candle 1798)",
    says="wrong by",
)
