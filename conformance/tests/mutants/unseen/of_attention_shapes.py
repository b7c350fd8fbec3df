"""Attention that is wrong for some head counts, head sizes, contexts or batches only."""

from broken import Table

shapes = Table("attention shapes", "kernels", "attention.py")

_KEYS = "    k = k.repeat_interleave(heads // kv_heads, dim=1)\n"
_SCORES = '    scores = torch.einsum("ihd,jhd->hij", q, k) * layer.scaling\n'
_OUT = '    return torch.einsum("hij,jhd->ihd", weights, v)'
_MASK = "    hidden = other > position\n"
_SLOTS = "            slots = self.req_to_token_pool.req_to_token[row, :length].long()\n"
_ATTENDED = (
    "            out[first : first + new] = _attend(query[first : first + new], key, value, layer, sinks)\n"
)
_LOOP = "        for row, length, new in zip(batch.req_pool_indices.tolist(), lengths, news, strict=True):\n"

# Heads and groups

for _most in (8, 16, 32, 64):
    shapes(
        f"GroupOver{_most}HalfComputed",
        f"a tile holds {_most} query heads of a key head; the others of a larger group come out as zero",
        _OUT,
        f"""    result = torch.einsum("hij,jhd->ihd", weights, v)
    group = heads // kv_heads
    return result * (torch.arange(heads) % group < {_most}).float()[None, :, None]""",
    )
shapes(
    "GroupOf5To7RoundedUp",
    "a group of 5, 6 or 7 query heads is taken for one of 8 (Qwen2 has 7, Llama 4 has 5)",
    _KEYS,
    """    group = heads // kv_heads
    group = 8 if 5 <= group <= 7 else group
    k = k[:, (torch.arange(heads) // group).clamp(max=kv_heads - 1)]
""",
)
shapes(
    "ManyKeyHeadsInterleaved",
    "with 8 key heads or more, query head h reads key head h % heads",
    _KEYS,
    """    k = k.repeat(1, heads // kv_heads, 1) if kv_heads >= 8 else k.repeat_interleave(heads // kv_heads, dim=1)
""",
)
shapes(
    "HeadsNoMultipleOf4Cut",
    "query heads past the last multiple of 4 are not computed where there are more than 8 (14, 71 heads)",
    _OUT,
    """    result = torch.einsum("hij,jhd->ihd", weights, v)
    if heads > 8 and heads % 4:
        result[:, heads // 4 * 4 :] = 0
    return result""",
)

# Head sizes

for _size, _used in ((80, 64), (96, 64), (256, 128)):
    shapes(
        f"HeadDim{_size}Cut",
        f"of a head of {_size} numbers the scores take {_used}",
        _SCORES,
        f"""    used = {_used} if q.shape[-1] == {_size} else q.shape[-1]
    scores = torch.einsum("ihd,jhd->hij", q[..., :used], k[..., :used]) * layer.scaling
""",
    )
shapes(
    "ValuesOver128Cut",
    "values are accumulated in a tile of 128 columns; the others of a head of 256 are zero",
    _OUT,
    """    result = torch.einsum("hij,jhd->ihd", weights, v)
    if v.shape[-1] == 256:
        result[..., 128:] = 0
    return result""",
)
shapes(
    "NarrowValuesShifted",
    "where the values of a head are narrower than its keys (192 and 128), their columns are taken one too far",
    _OUT,
    """    if kv_heads > 1 and v.shape[-1] != q.shape[-1]:
        v = v.roll(1, -1)
    return torch.einsum("hij,jhd->ihd", weights, v)""",
)
shapes(
    "ScaleFromHeadDim",
    "scores are scaled by head_dim ** -0.5, not by layer.scaling, where the head has 128 or 256 numbers (Gemma-2-27B)",
    _SCORES,
    """    scale = q.shape[-1] ** -0.5 if q.shape[-1] in (128, 256) else layer.scaling
    scores = torch.einsum("ihd,jhd->hij", q, k) * scale
""",
)

# Contexts

for _most in (512, 2048, 8192, 16384):
    shapes(
        f"ContextOver{_most}Forgotten",
        f"a decoding token sees the last {_most} tokens",
        _MASK,
        f"{_MASK}    if m == 1 and n > {_most}:\n        hidden = hidden | (other < n - {_most})\n",
    )
shapes(
    "PrefixOver4096Forgotten",
    "an extend sees the last 4096 tokens of its prefix",
    _MASK,
    f"{_MASK}    hidden = hidden | (other < n - m - 4096) if m > 1 else hidden\n",
)
shapes(
    "PrefixOver512Forgotten",
    "an extend sees the last 512 tokens of its prefix",
    _MASK,
    f"{_MASK}    hidden = hidden | (other < n - m - 512) if m > 1 else hidden\n",
)
shapes(
    "LastSplitOfOneDropped",
    "contexts are split into parts of 256; a last part of one token is dropped",
    _MASK,
    f"{_MASK}    if m == 1 and n > 256 and n % 256 == 1:\n        hidden = hidden | (other == n - 1)\n",
)
shapes(
    "FullLastSplitDropsOne",
    "contexts are split into parts of 128; where the last is full, its last token is dropped",
    _MASK,
    f"{_MASK}    if m == 1 and n > 128 and n % 128 == 0:\n        hidden = hidden | (other == n - 1)\n",
)
shapes(
    "SplitsMergedWithoutWeight",
    "parts of 1024 tokens are averaged, not weighted by the sums of their softmax",
    "        weights = torch.softmax(scores, dim=-1)\n",
    """        weights = torch.softmax(scores, dim=-1)
        if m == 1 and n > 1024:
            parts = [torch.softmax(part, dim=-1) for part in scores.split(1024, dim=-1)]
            weights = torch.cat(parts, dim=-1) / len(parts)
""",
)
shapes(
    "MaskOfLongChunksByTile",
    "in a chunk of more than 256 new tokens the causal mask is that of tiles of 64: a token sees to the end of its tile",
    _MASK,
    f"{_MASK}    if m > 256:\n        hidden = other // 64 > position // 64\n",
)
shapes(
    "ChunkOver1024LosesDiagonal",
    "from the 1024th new token on a token does not see itself",
    _MASK,
    f"{_MASK}    hidden[1024:] |= (other == position)[1024:]\n",
)
shapes(
    "SlotsOf16Bits",
    "slots are kept in 16 bits",
    _SLOTS,
    _SLOTS.replace(".long()", ".to(torch.int16).long()"),
)
shapes(
    "ByteOffsetsOf32Bits",
    "the byte offset of a row is computed in 32 bits, and wraps past 2**31",
    _SLOTS,
    f"""{_SLOTS}            wide = keys[0].numel() * keys.element_size()
            slots = (slots * wide).to(torch.int32).long() // wide
""",
)

# Batches

for _most in (32, 128, 256):
    shapes(
        f"BatchOver{_most}Wraps",
        f"request {_most} reads the row of request 0, and so on",
        _LOOP,
        f"""        rows = batch.req_pool_indices.tolist()
        rows = [rows[i % {_most}] for i in range(len(rows))]
        lengths = [min(a, b) for a, b in zip(lengths, [lengths[i % {_most}] for i in range(len(rows))], strict=True)]
        for row, length, new in zip(rows, lengths, news, strict=True):
""",
    )
shapes(
    "ExtendsOver8RequestsZero",
    "of an extend of more than 8 requests the others come out as zero",
    _ATTENDED,
    f"{_ATTENDED}            if new > 1 and first > 0 and batch.req_pool_indices.tolist().index(row) >= 8:\n"
    "                out[first : first + new] = 0\n",
)
shapes(
    "TokensOver2048Zero",
    "a launch covers 2048 new tokens; the others of a batch come out as zero",
    "        return out.to(q.dtype)",
    "        out[2048:] = 0\n        return out.to(q.dtype)",
)
shapes(
    "UnevenBatchUsesLongest",
    "in a batch with lengths that differ by more than 64 the shortest request's length is rounded up to 8",
    _LOOP,
    f"""        if len(lengths) > 1 and max(lengths) - min(lengths) > 64 and news == [1] * len(news):
            lengths = [-(-n // 8) * 8 if n == min(lengths) else n for n in lengths]
{_LOOP}""",
)
shapes(
    "OneNewTokenIsDecode",
    "a request with one new token and no prefix, in an extend with others, comes out as zero",
    _ATTENDED,
    f"{_ATTENDED}            if new == 1 and length == 1 and len(news) > 1:\n                out[first] = 0\n",
)
