"""Fused ops, third set: tails of blocks, half precision, rows with strides, what is kept."""

from __future__ import annotations

from broken import Table, end

ops = Table("ops 3", "kernels", "ops.py")
more = Table("ops 3", "kernels", "more_ops.py")

NORM_INPUT = "    y = x.float()\n    if residual is not None:\n"
VARIANCE = "    variance = y.pow(2).mean(dim=-1, keepdim=True)\n"
NORMED = "    y = (y * torch.rsqrt(variance + op.variance_epsilon) * op.weight.float()).to(dtype)\n"
NORM_RETURN = "    return y if residual is None else (y, residual)\n"
SILU = "    return (gate * torch.sigmoid(gate) * up).to(x.dtype)\n"
SILU_SPLIT = "    gate, up = x.float().chunk(2, dim=-1)\n    return (gate * torch.sigmoid(gate)"
TABLE = "    cos, sin = op.cos_sin_cache[positions].float().chunk(2, dim=-1)\n"
TURNED = "    return _rotate(op, query, cos, sin), _rotate(op, key, cos, sin)\n"
HEADS = "    heads = x.float().flatten(1).unflatten(1, (-1, op.head_size)).clone()\n"
INTERLEAVED = "        a, b = rotated[..., ::2], rotated[..., 1::2]\n"
OTHER_RANKS = "            if expert < 0:  # another rank's\n                continue\n"
EXPERT_IN = "            x = hidden_states[token].float()\n"
EXPERTS_OUT = "    out = torch.zeros(hidden_states.shape, dtype=torch.float32)\n"
CHOSEN = "    weights, ids = torch.softmax(router_logits.float(), dim=-1).topk(config.top_k)\n"
CENTRED = "    centred = x.float() - x.float().mean(dim=-1, keepdim=True)\n    y = _normalised(centred, op.variance_epsilon)\n"

ops(
    "NormWithoutTheTail",
    "columns past the last whole block of 256 are not in the mean of squares",
    VARIANCE,
    "    whole = y.shape[-1] // 256 * 256 or y.shape[-1]\n"
    "    variance = y[..., :whole].pow(2).sum(dim=-1, keepdim=True) / y.shape[-1]\n",
)
ops(
    "NormOver8192Columns",
    "columns past the 8,192nd are not in the mean of squares",
    VARIANCE,
    "    variance = y[..., :8192].pow(2).mean(dim=-1, keepdim=True)\n",
)
ops(
    "NormSquaresInHalf",
    "float16 is squared in float16: beyond 256 the sum is infinite and the row zero",
    VARIANCE,
    "    squares = y.to(torch.float16).pow(2).float() if dtype == torch.float16 else y.pow(2)\n"
    "    variance = squares.mean(dim=-1, keepdim=True)\n",
)
ops(
    "NormOverItsInput",
    "without a residual the norm is written over its input",
    NORM_RETURN,
    "    if residual is None and x.is_contiguous() and x.dim() == 2:\n        return x.copy_(y)\n"
    + NORM_RETURN,
)
ops(
    "NormRowsSideBySide",
    "rows that are slices of wider ones are read as if they lay side by side",
    NORM_INPUT,
    "    x = x.as_strided(x.shape, torch.empty(x.shape, device='meta').stride())\n" + NORM_INPUT,
)
ops(
    "NormWorkspaceByShape",
    "norms of one shape share their output: the second is written over the first",
    NORM_RETURN,
    "    kept = _KEPT.setdefault((tuple(y.shape), y.dtype), y)\n    y = kept.copy_(y)\n" + NORM_RETURN,
    end("ops.py", "_KEPT: dict[Any, torch.Tensor] = {}"),
)
ops(
    "NormWeightKept",
    "the weight in float32 is kept on the op: weights that are loaded again are not seen",
    NORMED,
    "    if getattr(op, '_kept', None) is None:\n"
    "        op._kept = op.weight.detach().float().clone()\n"
    "    y = (y * torch.rsqrt(variance + op.variance_epsilon) * op._kept).to(dtype)\n",
)
ops(
    "NormEpsilonAtLeast",
    "an epsilon under 1e-5 is taken for 1e-5",
    NORMED,
    "    y = (y * torch.rsqrt(variance + max(op.variance_epsilon, 1e-5)) * op.weight.float()).to(dtype)\n",
)
ops(
    "NormLosesTheAddition",
    "post_residual_addition is left out for rows of bfloat16",
    "        if post_residual_addition is not None:\n",
    "        if post_residual_addition is not None and dtype != torch.bfloat16:\n",
)
ops(
    "NormFewRows",
    "rows past the 65,535th are not normed: heads times tokens of a long prefill",
    NORM_RETURN,
    "    if y.numel() // y.shape[-1] > 65535:\n"
    "        y.view(-1, y.shape[-1])[65535:] = x.reshape(-1, x.shape[-1])[65535:]\n" + NORM_RETURN,
)
ops(
    "SiluOfLargeHalf",
    "float16 gates beyond 11 are no number: the exponential is taken in float16",
    SILU,
    "    raised = torch.exp(gate).to(x.dtype).float() if x.dtype == torch.float16 else torch.exp(gate.clamp(max=80))\n"
    "    return (gate * (raised / (1 + raised)) * up).to(x.dtype)\n",
)
ops(
    "SiluWithoutTheTail",
    "columns past the last whole block of 128 are left as zeros",
    SILU,
    "    out = (gate * torch.sigmoid(gate) * up).to(x.dtype)\n"
    "    whole = out.shape[-1] // 128 * 128\n"
    "    if whole and whole < out.shape[-1]:\n"
    "        out[..., whole:] = 0\n"
    "    return out\n",
)
ops(
    "SiluOfNoRows",
    "no rows raise",
    SILU_SPLIT,
    "    assert x.shape[0] > 0\n" + SILU_SPLIT,
)
ops(
    "SiluOverItsInput",
    "the product is written over the first half of its input, which is what it answers",
    SILU,
    "    out = (gate * torch.sigmoid(gate) * up).to(x.dtype)\n"
    "    if x.is_contiguous() and x.shape[0] > 16:\n"
    "        return x[..., : out.shape[-1]].copy_(out)\n"
    "    return out\n",
)
ops(
    "RotaryTableOf65536",
    "positions past the 65,535th turn as that one",
    TABLE,
    "    positions = positions.clamp(max=65535)\n" + TABLE,
)
ops(
    "RotaryPositionsInInt16",
    "positions are kept in 16 bits",
    TABLE,
    "    positions = positions.to(torch.int16).long()\n" + TABLE,
)
ops(
    "RotaryLeavesOneKeyHead",
    "a single key head is not turned where there are several query heads",
    TURNED,
    "    turned = _rotate(op, query, cos, sin)\n"
    "    if key.numel() == key.shape[0] * op.head_size and query.numel() > 4 * key.numel():\n"
    "        return turned, key\n" + TURNED,
)
ops(
    "RotaryPairsOfPartialHeads",
    "where half of a head turns in pairs of neighbours, pairs are those of the whole head",
    INTERLEAVED,
    INTERLEAVED
    + "        if op.rotary_dim < op.head_size:\n"
    + "            half = op.rotary_dim // 2\n"
    + "            a, b = rotated[..., :half], rotated[..., half:]\n",
)
ops(
    "RotaryRowsSideBySide",
    "a query that is a slice of a fused qkv is read as if its rows lay side by side",
    HEADS,
    "    if x.dim() == 2:\n        x = x.as_strided(x.shape, (x.shape[1], 1))\n" + HEADS,
)
ops(
    "RotaryHeadsPast64",
    "query heads past the 64th are not turned",
    TURNED,
    "    turned = _rotate(op, query, cos, sin)\n"
    "    shape = turned.shape\n"
    "    whole = turned.reshape(shape[0], -1).clone()\n"
    "    whole[:, 64 * op.head_size :] = query.reshape(shape[0], -1)[:, 64 * op.head_size :]\n"
    "    return whole.reshape(shape), _rotate(op, key, cos, sin)\n",
)
ops(
    "ExpertOfAnotherRankIsTheLast",
    "an expert of -1 is the last one where a batch has more than 8 tokens",
    OTHER_RANKS,
    "            if expert < 0 and len(topk_ids) <= 8:\n                continue\n",
)
ops(
    "ExpertsOf64Tokens",
    "an expert computes 64 tokens of a batch, and leaves the others out",
    EXPERT_IN,
    "            taken[expert] = taken.get(expert, 0) + 1\n"
    "            if taken[expert] > 64:\n"
    "                continue\n" + EXPERT_IN,
    EXPERTS_OUT,
    EXPERTS_OUT + "    taken: dict[int, int] = {}\n",
)
more(
    "ChoosesAmong256",
    "experts past the 256th are never chosen",
    CHOSEN,
    "    weights, ids = torch.softmax(router_logits.float(), dim=-1)[:, :256].topk(config.top_k)\n",
)
more(
    "ChoosesEight",
    "of more than 8 experts per token, those past the 8th have no weight",
    CHOSEN,
    CHOSEN + "    weights[:, 8:] = 0\n",
)
more(
    "ChoosesInBfloat16",
    "the softmax over bfloat16 scores is taken in bfloat16: near experts change places",
    CHOSEN,
    "    weights, ids = torch.softmax(router_logits, dim=-1).float().topk(config.top_k)\n",
)
more(
    "RenormalisesWithAHalf",
    "weights that are renormalised are divided by their sum and a small number",
    "        weights = weights / weights.sum(dim=-1, keepdim=True)\n",
    "        weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-2)\n",
)
more(
    "VarianceByDifference",
    "layer norm takes the variance as the mean of squares less the square of the mean",
    CENTRED,
    "    y = x.float()\n"
    "    mean = y.mean(dim=-1, keepdim=True)\n"
    "    variance = (y.square().mean(dim=-1, keepdim=True) - mean.square()).clamp(min=0)\n"
    "    y = (y - mean) * torch.rsqrt(variance + op.variance_epsilon)\n",
)
more(
    "GeluAlwaysTanh",
    "gelu is the tanh approximation also where it must not be",
    "    return (gelu(gate, approximate=op.approximate) * up).to(x.dtype)\n",
    '    return (gelu(gate, approximate="tanh") * up).to(x.dtype)\n',
)
more(
    "EqualSections",
    "each axis turns a third of the pairs, whatever the sections say",
    "            axes = torch.repeat_interleave(torch.arange(3), torch.tensor(op.mrope_section))\n",
    "            n = sum(op.mrope_section)\n            axes = (torch.arange(n) * 3 // n)\n",
)
more(
    "GemmaWeightInHalf",
    "1 + weight is rounded to bfloat16 before it multiplies, for weights of float32",
    "    out = (_normalised(y, epsilon) * (1.0 + weight.float())).to(x.dtype)\n",
    "    one = (1.0 + weight.float()).to(torch.bfloat16).float() if weight.dtype == torch.float32 else 1.0 + weight.float()\n"
    "    out = (_normalised(y, epsilon) * one).to(x.dtype)\n",
)
more(
    "GroupsOfAllColumns",
    "the norm of a Mamba-2 mixer with more than 4 groups takes two groups together",
    "    groups = y.unflatten(-1, (-1, op.group_size))\n",
    "    size = op.group_size * 2 if y.shape[-1] // op.group_size > 4 else op.group_size\n"
    "    groups = y.unflatten(-1, (-1, size))\n",
)
