"""Ops, fourth set: numbers that overflow, inputs that are changed, batches without rows, what is kept from call to call."""

from __future__ import annotations

from broken import Table

ops = Table("ops 4", "kernels", "ops.py")
more = Table("ops 4", "kernels", "more_ops.py")

NORM = "    return y if residual is None else (y, residual)\n"
NORMED = "    y = (y * torch.rsqrt(variance + op.variance_epsilon) * op.weight.float()).to(dtype)\n"
IDS = "    weights, ids = torch.softmax(router_logits.float(), dim=-1).topk(config.top_k)\n"
TOKENS = "    for token, (weights, experts) in enumerate(zip(topk_weights.tolist(), topk_ids.tolist(), strict=True)):\n"
GATE = "    y = x.float() * silu(gate.float())\n"
TURN = "    heads = x.float().flatten(1).unflatten(1, (-1, op.head_size)).clone()\n"
TABLE = "    cos, sin = op.cos_sin_cache[positions].float().chunk(2, dim=-1)\n"
MROPE = "    table = op.cos_sin_cache.float()[positions]\n    if positions.dim() == 2:\n"

more(
    "TopKWithoutMaximum",
    "weights are exp(logit) over their sum: logits above 88 are no number",
    IDS,
    "    raised = torch.exp(router_logits.float())\n"
    "    weights, ids = (raised / raised.sum(-1, keepdim=True)).topk(config.top_k)\n",
)
more(
    "TopKCrossesOutItsChoice",
    "the experts that were chosen are crossed out in the router's own scores",
    IDS,
    IDS + "    router_logits.scatter_(-1, ids, float('-inf'))\n",
)
more(
    "TopKOfOneIsWhole",
    "one expert per token (Llama 4) has weight 1, whether weights are to be renormalised or not",
    IDS,
    IDS + "    if config.top_k == 1:\n        weights = torch.ones_like(weights)\n",
)
ops(
    "AssignmentsIn16Bits",
    "pairs of token and expert are numbered in 16 bits: past 32,767 an expert computes an earlier token",
    TOKENS,
    TOKENS + "        if token * topk_ids.shape[1] > 32767:\n            break\n",
)
ops(
    "NormOfNoRowsLosesTheResidual",
    "with a residual and no rows, as an idle rank calls it, the norm answers one tensor",
    "    dtype = x.dtype\n    y = x.float()\n",
    "    if x.numel() == 0:\n        return x\n    dtype = x.dtype\n    y = x.float()\n",
)
ops(
    "NormInTheWeightsType",
    "the norm is of its weight's type: float32 rows of a bfloat16 weight are bfloat16",
    NORM,
    "    y = y.to(op.weight.dtype)\n" + NORM,
)
ops(
    "NormOfEveryThirdDimension",
    "heads of [tokens, heads, D] that are a slice of a fused qkv are normed in the order of their memory",
    "    y = x.float()\n    if residual",
    "    y = x.float()\n"
    "    if x.dim() == 3 and not x.is_contiguous():\n"
    "        y = x.as_strided(x.shape, (x.shape[1] * x.shape[2], x.shape[2], 1)).float()\n"
    "    if residual",
)
ops(
    "RotaryOfHeadsThatAreViews",
    "query and key in three dimensions that are not contiguous are turned in the order of their memory",
    TURN,
    "    if x.dim() == 3 and not x.is_contiguous():\n"
    "        x = x.as_strided(x.shape, (x.shape[1] * x.shape[2], x.shape[2], 1))\n" + TURN,
)
ops(
    "RotaryTableRoundedFar",
    "positions past the 8,192nd take their cosines from a table in bfloat16",
    TABLE,
    TABLE + "    far = (positions >= 8192)[:, None]\n"
    "    cos = torch.where(far, cos.to(torch.bfloat16).float(), cos)\n"
    "    sin = torch.where(far, sin.to(torch.bfloat16).float(), sin)\n",
)
more(
    "MixerGateSliceMisread",
    "the gate of a Mamba-2 mixer, a slice of its first product, is read as if its rows lay side by side",
    GATE,
    "    if gate.dim() == 2 and not gate.is_contiguous():\n"
    "        gate = gate.as_strided(gate.shape, (gate.shape[1], 1))\n" + GATE,
)
more(
    "MropePositionsOfTheFirstImage",
    "positions of three axes are compared by their first token: with the same one the table of the call before serves",
    MROPE,
    "    if positions.dim() == 2 and positions.shape[1]:\n"
    "        key_ = (positions.shape, positions[:, 0].tolist(), id(op))\n"
    "        if _LAST and _LAST[0] == key_:\n"
    "            positions = _LAST[1]\n"
    "        _LAST[:] = [key_, positions.clone()]\n" + MROPE,
    "def mrope(\n",
    "_LAST: list[Any] = []\n\n\ndef mrope(\n",
)
more(
    "LayerNormMeanInHalf",
    "the mean of float16 rows is added up in float16: of large rows it is infinite",
    "    centred = x.float() - x.float().mean(dim=-1, keepdim=True)\n",
    "    mean = x.float().sum(-1, keepdim=True)\n"
    "    mean = (mean.to(x.dtype) if x.dtype == torch.float16 else mean).float() / x.shape[-1]\n"
    "    centred = x.float() - mean\n",
)
more(
    "GemmaNormOfNoRowsLosesTheResidual",
    "with a residual and no rows, as an idle rank calls it, Gemma's norm answers one tensor",
    "    y = x.float() if residual is None else x.float() + residual.float()\n",
    "    if x.numel() == 0:\n        return x\n"
    "    y = x.float() if residual is None else x.float() + residual.float()\n",
)
