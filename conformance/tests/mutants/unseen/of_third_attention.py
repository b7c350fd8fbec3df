"""Attention, third set: kernels cut into tiles, splits and blocks, heads, features and pairs of them."""

from __future__ import annotations

from broken import Table, end

attention = Table("attention 3", "kernels", "attention.py")

OUT = "        out = torch.empty(query.shape[0], layer.tp_q_head_num, layer.v_head_dim)\n"
SLOTS = "            slots = self.req_to_token_pool.req_to_token[row, :length].long()\n"
VALUE = "            value = _scaled(values[slots], layer.v_scale)\n"
RETURN = "        return out.to(q.dtype).flatten(1)\n"
REPEAT_K = "    k = k.repeat_interleave(heads // kv_heads, dim=1)\n"
REPEAT_V = "    v = v.repeat_interleave(heads // kv_heads, dim=1)\n"
SCORES = '    scores = torch.einsum("ihd,jhd->hij", q, k) * layer.scaling\n'
CAP = "        scores = layer.logit_cap * torch.tanh(scores / layer.logit_cap)\n"
POSITION = "    position = torch.arange(n - m, n)[:, None]\n"
WINDOW = "        hidden = hidden | (other < position - window)\n"
SOFTMAX = "        weights = torch.softmax(scores, dim=-1)\n"
SINK = "        sink = sinks.float().reshape(heads, 1, 1).expand(heads, m, 1)\n"

# Tiles of queries, splits of keys

attention(
    "TileCountsFromItsOwnStart",
    "past 2,048 new tokens of a request, a tile of queries masks by its place in the tile",
    POSITION,
    "    position = (n - m + torch.arange(m) % 2048)[:, None]\n",
)
attention(
    "PositionsInInt16",
    "positions are kept in 16 bits: past 32,767 tokens a query sees nothing",
    POSITION,
    "    position = torch.arange(n - m, n).to(torch.int16)[:, None]\n",
)
attention(
    "SplitOfOneKeyIsDropped",
    "decode splits keys by 1,024, and a last split of one key, the token's own, is not computed",
    SCORES,
    SCORES + '    if m == 1 and n > 1024 and n % 1024 == 1:\n        scores[..., -1] = float("-inf")\n',
)
attention(
    "SinkInEverySplit",
    "decode over more than 2,048 keys adds the sink once for each split of 2,048",
    SINK,
    SINK + "        if m == 1:\n            sink = sink + torch.log(torch.tensor(float(-(-n // 2048))))\n",
)
attention(
    "SplitsMergedByLength",
    "decode over more than 4,096 keys merges its splits by their number of keys, not by their sum of exponentials",
    SOFTMAX,
    SOFTMAX
    + "        if m == 1 and n > 4096:\n"
    + "            parts = torch.cat([torch.softmax(one, -1) * (one.shape[-1] / n) for one in scores.split(4096, -1)], -1)\n"
    + "            weights = torch.nan_to_num(parts)\n",
)
attention(
    "MaximumOfTheFirstBlock",
    "decode subtracts the largest score of the first 64 keys from all: later ones overflow",
    SOFTMAX,
    "        if m == 1:\n"
    "            shown = torch.isfinite(scores)\n"
    "            first = scores.masked_fill(~(shown & (shown.cumsum(-1) <= 64)), -3e38).amax(-1, keepdim=True)\n"
    "            raised = torch.exp(scores - first)\n"
    "            weights = raised / raised.sum(-1, keepdim=True)\n"
    "        else:\n"
    "            weights = torch.softmax(scores, dim=-1)\n",
)
attention(
    "NewTokensPast4096OfABatch",
    "of a prefill batch, queries past the 4,096th are not computed",
    RETURN,
    "        out[4096:] = 0\n" + RETURN,
)
attention(
    "ScoresRoundedInBfloat16",
    "where the query is bfloat16, scores are rounded to it before the softmax",
    "        first = 0\n",
    "        first = 0\n        _rounds[0] = q.dtype\n",
    SCORES,
    SCORES + "    if _rounds[0] == torch.bfloat16:\n        scores = scores.to(torch.bfloat16).float()\n",
    end("attention.py", "_rounds: list[Any] = [None]"),
)
attention(
    "WeightsRoundedInFloat8",
    "with an fp8 cache the softmax's weights are rounded to e4m3 before they meet the values",
    '    return torch.einsum("hij,jhd->ihd", weights, v)\n',
    "    if layer.k_scale is not None:\n"
    "        weights = weights.to(torch.float8_e4m3fn).float()\n"
    '    return torch.einsum("hij,jhd->ihd", weights, v)\n',
)

# Heads

attention(
    "GroupsByShift",
    "a group of more than 8 heads that is no power of two is taken for the next one: 12 for 16",
    REPEAT_K,
    "    group = heads // kv_heads\n"
    "    if group > 8:\n"
    "        group = 1 << (group - 1).bit_length()\n"
    "    chosen = torch.arange(heads) // group\n"
    "    k = k[:, chosen]\n",
    REPEAT_V,
    "    v = v[:, chosen]\n",
)
attention(
    "ScaleOfPaddedHead",
    "a head_dim that is no power of two is padded, and in decode the scale is that of the padded size",
    SCORES,
    SCORES
    + "    d = q.shape[-1]\n"
    + "    if m == 1 and d & (d - 1) and k.shape[-1] == v.shape[-1]:\n"
    + "        scores = scores * (d / (1 << (d - 1).bit_length())) ** 0.5\n",
)
attention(
    "ValuesPast192Columns",
    "value columns past 192 come from the tile before",
    RETURN,
    "        if layer.v_head_dim == layer.qk_head_dim == 256:\n"
    "            out[..., 192:] = out[..., 128:192]\n" + RETURN,
)
attention(
    "HeadsInBlocksOf16",
    "where a rank has more than 16 query heads and they are no multiple of 16, the last block repeats the one before",
    RETURN,
    "        heads = layer.tp_q_head_num\n"
    "        if heads > 16 and heads % 16:\n"
    "            out[:, heads - heads % 16 :] = out[:, heads - heads % 16 - heads % 16 : heads - heads % 16]\n"
    + RETURN,
)

# Features, and pairs of them

attention(
    "WindowOfTheLongest",
    "in decode the window is measured from the longest request of the batch",
    "        first = 0\n",
    "        first = 0\n        _longest[0] = max(lengths, default=0) if max(news, default=0) == 1 else 0\n",
    WINDOW,
    "        late = max(0, _longest[0] - n) if m == 1 else 0\n"
    "        hidden = hidden | ((other < position - window + late) & (other < position))\n",
    end("attention.py", "_longest = [0]"),
)
attention(
    "WindowNotInPrefix",
    "in prefill the window cuts among the new tokens only, a cached prefix is seen whole",
    WINDOW,
    "        hidden = hidden | ((other < position - window) & ((other >= n - m) | (m == 1)))\n",
)
attention(
    "WindowBeginsOnABlock",
    "a window of 1,024 or more begins at the next block of 64 in decode",
    WINDOW,
    "        begin = position - window\n"
    "        if window >= 1024 and m == 1:\n"
    "            begin = torch.where(begin > 0, (begin + 63) // 64 * 64, begin)\n"
    "        hidden = hidden | (other < begin)\n",
)
attention(
    "WindowOfTheFirstLayer",
    "the window of the layer that was computed first serves all layers of the backend",
    OUT,
    OUT
    + "        if not hasattr(self, '_window'):\n"
    + "            self._window = layer.sliding_window_size\n"
    + "        _window_now[0] = self._window\n",
    "    window = layer.sliding_window_size\n",
    "    window = _window_now[0]\n",
    end("attention.py", "_window_now: list[Any] = [None]"),
)
attention(
    "ScalingOfTheFirstLayer",
    "the scaling of the layer that was computed first serves all layers of the backend",
    OUT,
    OUT
    + "        if not hasattr(self, '_scaling'):\n"
    + "            self._scaling = layer.scaling\n"
    + "        _scaling_now[0] = self._scaling\n",
    SCORES,
    '    scores = torch.einsum("ihd,jhd->hij", q, k) * _scaling_now[0]\n',
    end("attention.py", "_scaling_now: list[Any] = [None]"),
)
attention(
    "SinkLostWithAFullWindow",
    "as soon as the window cuts something off, decode leaves the sink out",
    "    if sinks is not None:\n",
    "    if sinks is not None and not (m == 1 and window is not None and 0 <= window < n - 1):\n",
)
attention(
    "SinksInHalfPrecision",
    "sinks are read as float16: one below -65,504 or in bfloat16 reads as infinite or other bits",
    SINK,
    "        bits = sinks.view(torch.float16) if sinks.dtype == torch.bfloat16 else sinks\n"
    "        sink = bits.float().reshape(heads, 1, 1).expand(heads, m, 1)\n",
)
attention(
    "CapByExponentialsInHalf",
    "the cap's tanh is made of exponentials in float16: beyond five caps it is no number",
    CAP,
    "        twice = torch.exp(2 * scores / layer.logit_cap).to(torch.float16).float()\n"
    "        scores = layer.logit_cap * (twice - 1) / (twice + 1)\n",
)
attention(
    "CapBeforeScalingInDecode",
    "decode bends the scores before it scales them",
    CAP,
    "        raw = scores / layer.scaling if m == 1 and n > 512 else scores\n"
    "        bent = layer.logit_cap * torch.tanh(raw / layer.logit_cap)\n"
    "        scores = bent * layer.scaling if m == 1 and n > 512 else bent\n",
)
attention(
    "Fp8ScaleLostInTheWindow",
    "decode inside a window reads fp8 values without their scale",
    VALUE,
    "            near = new == 1 and layer.sliding_window_size is not None and 0 <= layer.sliding_window_size < length\n"
    "            value = _scaled(values[slots], None if near else layer.v_scale)\n",
)
attention(
    "Fp8ScaleOfThePrefixOnly",
    "prefill with a cached prefix multiplies its new tokens by the scale twice",
    VALUE,
    VALUE
    + "            if layer.v_scale is not None and 1 < new < length:\n"
    + "                value[length - new :] = value[length - new :] * layer.v_scale\n",
)
attention(
    "EncoderSeesTheBatch",
    "an encoder's tokens see the tokens of every request of the batch",
    "        first = 0\n",
    "        first = 0\n        table = self.req_to_token_pool.req_to_token\n"
    "        everything = [table[row, :n].long() for row, n in zip(batch.req_pool_indices.tolist(), lengths)]\n",
    SLOTS,
    SLOTS
    + '            if getattr(layer.attn_type, "value", None) == "encoder_only":\n'
    + "                slots = torch.cat(everything)\n",
)
