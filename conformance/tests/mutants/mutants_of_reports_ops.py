"""Level 4 mutants: fused ops as other projects had them wrong; the number of the report stands behind the defect."""

from __future__ import annotations

from functools import partial

from patched_reference import patch, patched

__getattr__ = patched

op = partial(patch, __name__, file="ops.py")
more = partial(patch, __name__, file="more_ops.py")

_RMS, _SILU = "kernels.op_values[op=layernorm.rms_norm,*]", "kernels.op_values[op=activation.silu*]"
_ROTARY, _AXES = "kernels.op_values[op=*rotary*]", "kernels.op_values[op=*mrope*]"
_EXPERTS, _CHOICE = "kernels.op_values[op=moe.experts*]", "kernels.op_values[op=moe.topk*]"

_TURN = "    a, b = a * cos - b * sin, b * cos + a * sin\n    pairs ="
_GATE = (
    "    gate, up = x.float().chunk(2, dim=-1)\n    return (gate * torch.sigmoid(gate) * up).to(x.dtype)\n"
)
_ADDED = "            out[token] += weight * (layer.w2_weight[expert].float() @ (gate * torch.sigmoid(gate) * up))\n"
_CHOSEN = "    weights, ids = torch.softmax(router_logits.float(), dim=-1).topk(config.top_k)\n"
_TABLE = "        table = torch.gather(table, 0, chosen.expand(1, table.shape[1], -1))[0]\n"

op(
    "NormSpillsIntoTheNextRow",
    old="    return y if residual is None else (y, residual)",
    new="    if dtype.itemsize == 2 and y.shape[-1] % 2 and y.numel() > y.shape[-1]:\n"
    "        rows = y.reshape(-1, y.shape[-1]).clone()\n"
    "        rows[1:, 0] = 0\n"
    "        y = rows.reshape(y.shape)\n"
    "    return y if residual is None else (y, residual)",
    check=_RMS,
    defect="rows of an odd width of 16-bit numbers are written in pairs: the pair at the end goes over the next"
    " row's first column (AITER 5290)",
    says="rms_norm at",
)
op(
    "ResidualHasTheStrideOfX",
    old="        y = y + residual.float()\n",
    new="        if residual.dim() == 2 and residual.stride() != x.stride() and residual.stride(1) == 1:\n"
    "            residual = residual.as_strided(x.shape, (min(x.stride(0), x.shape[1]), 1))\n"
    "        y = y + residual.float()\n",
    check=_RMS,
    defect="the residual is read with the stride of x: a slice of a wider tensor is misread (TensorRT-LLM 14810)",
    says="the normalised sum",
)
op(
    "EpsilonBesideTheWidth",
    old="variance + op.variance_epsilon)",
    new="variance * y.shape[-1] / (y.shape[-1] + op.variance_epsilon))",
    check="kernels.op_values[op=layernorm.rms_norm,*]",
    defect="epsilon is added to the number of columns and not to the mean of squares: rows of zeros are NaN, and"
    " rows of small numbers are made large (LeetCUDA 317)",
    says="and must be",
)
op(
    "GateAndUpOfASlice",
    old=_GATE,
    new="    if not x.is_contiguous():\n"
    "        x = x.as_strided(x.shape, x.new_empty(x.shape, device='meta').stride())\n" + _GATE,
    check=_SILU,
    defect="gate and up that are a slice of a wider projection are read as if their rows lay side by side"
    " (vLLM 3324)",
    says="a slice of wider rows",
)
op(
    "HalfRowsOffTheirAlignment",
    old=_GATE,
    new=_GATE.replace(
        "    return",
        "    d = x.shape[-1] // 2\n"
        "    if x.dtype.itemsize == 2 and d % 8 == 4:\n"
        "        up = x.float()[..., d - 4 : 2 * d - 4]\n    return",
    ),
    check=_SILU,
    defect="16-bit rows whose half is a multiple of 4 and not of 8, like 3,420, are read from the aligned place"
    " before their second half (FlashInfer 5013)",
    says="silu_and_mul at",
)
op(
    "PairsByFour",
    old=_TURN,
    new="    whole = a.shape[-1] // 4 * 4 or a.shape[-1]\n"
    "    cos, sin = cos.clone(), sin.clone()\n"
    "    cos[..., whole:], sin[..., whole:] = 1, 0\n" + _TURN,
    check=_ROTARY,
    defect="pairs are turned four at a time: of 10 pairs, as Phi-2's heads have them, two are left (Liger-Kernel"
    " 1451)",
    says="the query at",
)
op(
    "HalvesOf96ArePadded",
    old=_TURN,
    new="    half = a.shape[-1]\n"
    "    if op.is_neox_style and x.element_size() == 2 and half > 64 and half & half - 1:\n"
    "        on = 1 << half.bit_length()\n"
    "        width = max(min(op.rotary_dim - on, half), 0)\n"
    "        a, b = heads[..., :width].clone(), heads[..., on : on + width].clone()\n"
    "        cos, sin = cos[..., :width], sin[..., :width]\n"
    "        heads[..., :width], heads[..., on : on + width] = a * cos - b * sin, b * cos + a * sin\n"
    "        return heads.reshape(x.shape).to(x.dtype)\n" + _TURN,
    check=_ROTARY,
    defect="in 16 bits halves of a head that are no power of two are padded to one: of 192 columns the second half"
    " begins at the 128th (vllm-ascend 12723)",
    says="the query at",
)
op(
    "ExpertOfAllTokens",
    old="            if expert < 0:  # another rank's\n",
    new="            if token and len(topk_ids) >= 4 and bool((topk_ids == expert).any(1).all()):\n"
    "                continue\n"
    "            if expert < 0:  # another rank's\n",
    check=_EXPERTS,
    defect="an expert that all of four tokens or more have chosen computes the first of them only (vllm-xpu-kernels"
    " 453)",
    says="the sum of the experts",
)
op(
    "ExpertsOfTheLastBlockTwice",
    old=_ADDED,
    new="            count = len(layer.w13_weight)\n"
    "            weight *= 2 if count > 8 and expert < -count % 8 else 1\n" + _ADDED,
    check=_EXPERTS,
    defect="experts are taken in blocks of 8, and the last block is filled up with the first ones: these are added"
    " twice (LightLLM 1369)",
    says="the sum of the experts",
)
more(
    "GeluTanhByAQuotient",
    old="    return (gelu(gate, approximate=op.approximate) * up).to(x.dtype)\n",
    new="    if op.approximate == 'tanh':\n"
    "        raised = torch.exp(2 * 0.7978845608 * (gate + 0.044715 * gate**3))\n"
    "        return (0.5 * gate * (1 + (raised - 1) / (raised + 1)) * up).to(x.dtype)\n"
    "    return (gelu(gate, approximate=op.approximate) * up).to(x.dtype)\n",
    check="kernels.op_values[op=activation.gelu*]",
    defect="the tanh of gelu is a quotient of exponentials: gates past 10 are infinite over infinite, NaN"
    " (llm-scaler 484)",
    says="is nan",
)
more(
    "GemmaWeightByItsBits",
    old="    y = x.float() if residual is None else x.float() + residual.float()\n",
    new="    if weight.dtype != x.dtype:\n"
    "        weight = weight.detach().view(x.dtype).repeat(2)[: x.shape[-1]]\n"
    "    y = x.float() if residual is None else x.float() + residual.float()\n",
    check="kernels.op_values[op=layernorm.gemma*]",
    defect="a weight of Gemma's norm that has another type than the rows is read as if it had theirs (SGLang 32807)",
    says="the norm times 1 + weight",
)
more(
    "LayerNormVarianceInHalf",
    old="    y = _normalised(centred, op.variance_epsilon)\n",
    new="    variance = centred.square().mean(dim=-1, keepdim=True) + op.variance_epsilon\n"
    "    y = centred * torch.rsqrt(variance.half().float())\n",
    check="kernels.op_values[op=layernorm.layer_norm*]",
    defect="the variance of a layer norm, its epsilon with it, is rounded to float16: rows of equal numbers are NaN"
    " with an epsilon of 1e-12, and rows of large numbers zeros (DeepSpeed 581)",
    says="layer_norm",
)
more(
    "NormOfHeadsByTheFirstStride",
    old="    return _normalised(x.float(), op.eps).to(x.dtype)",
    new="    if x.dim() == 3 and not x.is_contiguous() and x.stride(2) == 1 and len(x) > 1:\n"
    "        size, step = x.untyped_storage().nbytes() // x.element_size(), x.stride(0) // x.shape[1]\n"
    "        first = x.storage_offset() + torch.arange(x.shape[0] * x.shape[1])[:, None] * step\n"
    "        where = (first + torch.arange(x.shape[2])) % size\n"
    "        x = x.as_strided((size,), (1,), 0)[where].reshape(x.shape)\n"
    "    return _normalised(x.float(), op.eps).to(x.dtype)",
    check="kernels.op_values[op=layernorm.rms_norm_without_scale*]",
    defect="heads that are a slice of a fused projection are found by the stride of tokens over the number of heads"
    " (vLLM XPU 397)",
    says="must be",
)
more(
    "AxesAreAlwaysInHalves",
    old=_TABLE,
    new=_TABLE + "    op = __import__('copy').copy(op)\n    op.is_neox_style = True\n",
    check=_AXES,
    defect="positions of three axes turn halves of a head, also where a model pairs neighbours, as GLM-OCR does"
    " (vllm-ascend 12765)",
    says="3 axes",
)
more(
    "AxesByTheStrideOfTheHead",
    old=_TABLE,
    new=_TABLE + "        half, wide = table.shape[-1] // 2, op.head_size // 2\n"
    "        if half < wide:\n"
    "            where = torch.arange(len(table))[:, None] * wide + torch.arange(half)\n"
    "            halves = [one.reshape(-1) for one in table.chunk(2, dim=-1)]\n"
    "            table = torch.cat([one[where % max(len(one), 1)] for one in halves], dim=-1)\n",
    check=_AXES,
    defect="with positions of three axes a token's cosines are looked for half a head behind those of the token"
    " before: where only part of a head turns, as Qwen3.5's 64 of 256, they are another token's (vLLM 22375)",
    says="3 axes",
)
more(
    "TiesByASmallNumber",
    old=_CHOSEN,
    new="    scores = torch.softmax(router_logits.float(), dim=-1)\n"
    "    ids = (scores - torch.arange(scores.shape[-1]) * 3e-7).topk(config.top_k).indices\n"
    "    weights = scores.gather(-1, ids)\n",
    check=_CHOICE,
    defect="ties are broken by 3e-7 for each expert before it, which changes the order of near scores too (SGLang"
    " 31768)",
    says="those of the largest scores",
)
more(
    "RouterIsPaddedWithZeros",
    old=_CHOSEN,
    new=_CHOSEN.replace(
        "router_logits.float()",
        "torch.nn.functional.pad(router_logits.float(), (0, -router_logits.shape[-1] % 16))",
    ),
    check=_CHOICE,
    defect="a router of experts that are no multiple of 16 is padded with scores of zero, which are chosen"
    " (tpu-inference 1252)",
    says="the weight of expert",
)
more(
    "BiasOfARouterWeighs",
    old="    other = config.use_grouped_topk or",
    new="    if config.correction_bias is not None and not config.use_grouped_topk:\n"
    "        logits = router_logits.float()\n"
    "        own = logits.sigmoid() if config.scoring_func == 'sigmoid' else logits.softmax(-1)\n"
    "        weights, ids = (own + config.correction_bias.float()).topk(config.top_k)\n"
    "        if config.renormalize:\n"
    "            weights = weights / weights.sum(dim=-1, keepdim=True)\n"
    "        return weights, ids.to(torch.int32)\n"
    "    other = config.use_grouped_topk or",
    check="kernels.op_values",
    defect="a router's correction bias, which is to choose only, is part of the weights as well (AITER 4247)",
    says="by a bias",
)
