"""Level 4 mutants: fused ops that only some models reach."""

from __future__ import annotations

from functools import partial

from patched_reference import patch, patched

__getattr__ = patched

op = partial(patch, __name__, file="more_ops.py")

op(
    "GemmaWeightNotShifted",
    old="(1.0 + weight.float())).to(x.dtype)",
    new="weight.float()).to(x.dtype)",
    check="kernels.op_values[op=layernorm.gemma*]",
    defect="Gemma's norm multiplies by the weight, not by one plus the weight",
    says="the norm times 1 + weight",
)
op(
    "GemmaWeightShiftedInItsType",
    old="(1.0 + weight.float())).to(x.dtype)",
    new="(1.0 + weight.half()).float()).to(x.dtype)",
    check="kernels.op_values[op=layernorm.gemma*]",
    defect="one is added to the weight in half precision, also where rows are float32",
    says="the norm times 1 + weight",
)
op(
    "GemmaResidualNormalised",
    old="return out if residual is None else (out, y.to(x.dtype))",
    new="return out if residual is None else (out, out)",
    check="kernels.op_values[op=layernorm.gemma*]",
    defect="the residual that is handed on is the normalised one",
    says="the new residual",
)
op(
    "ScaleShiftForgotten",
    old="op.weight.float() + op.scale_shift",
    new="op.weight.float()",
    check="kernels.op_values[op=layernorm.*]",
    defect="the shift of the scale is left out",
    says="shifted",
)
op(
    "ScaledWithoutAScale",
    old="    if op.with_scale:\n",
    new="    if op.weight is not None:\n",
    check="kernels.op_values[op=layernorm.*]",
    defect="a norm without a scale multiplies by its weight all the same",
    says="no scale",
)
op(
    "EpsilonOfTheFirstCall",
    old="return _normalised(x.float(), op.eps).to(x.dtype)",
    new="return _normalised(x.float(), 1e-6).to(x.dtype)",
    check="kernels.op_values[op=layernorm.*]",
    defect="the norm without a scale has an epsilon of its own",
    says="which has no weight",
)
op(
    "MeanStays",
    old="    centred = x.float() - x.float().mean(dim=-1, keepdim=True)\n",
    new="    centred = x.float()\n",
    check="kernels.op_values[op=layernorm.layer_norm*]",
    defect="the mean is not taken off: it is an RMS norm",
    says="layer_norm with",
)
op(
    "VarianceCancels",
    old="    y = _normalised(centred, op.variance_epsilon)\n    if op.elementwise_affine:",
    new="    square = x.half().float().square().mean(dim=-1, keepdim=True)\n"
    "    square = square - x.half().float().mean(dim=-1, keepdim=True).square()\n"
    "    y = centred * torch.rsqrt(square.half().float().clamp(min=0) + op.variance_epsilon)\n"
    "    if op.elementwise_affine:",
    check="kernels.op_values[op=layernorm.layer_norm*]",
    defect="the variance is the mean square less the squared mean, in half precision",
    says="layer_norm with",
)
op(
    "VarianceCancelsInFloat32",
    old="    y = _normalised(centred, op.variance_epsilon)\n    if op.elementwise_affine:",
    new="    square = x.float().square().mean(dim=-1, keepdim=True)\n"
    "    square = square - x.float().mean(dim=-1, keepdim=True).square()\n"
    "    y = centred * torch.rsqrt(square.clamp(min=0) + op.variance_epsilon)\n"
    "    if op.elementwise_affine:",
    check="kernels.op_values[op=layernorm.layer_norm*]",
    defect="the variance is the mean square less the squared mean",
    says="layer_norm with",
)
op(
    "BiasForgotten",
    old="    if op.use_bias:\n",
    new="    if op.use_bias and not op.elementwise_affine:\n",
    check="kernels.op_values[op=layernorm.layer_norm*]",
    defect="the bias is left out where there is a weight",
    says="weight and bias",
)
op(
    "GateAfterTheNorm",
    old="    y = x.float() * silu(gate.float())\n",
    new="    y = x.float()\n",
    check="kernels.op_values[op=layernorm.mixer*]",
    defect="the gate is left out of what is normalised",
    says="the gated norm",
)
op(
    "OneMeanForAllGroups",
    old="    groups = y.unflatten(-1, (-1, op.group_size))\n",
    new="    groups = y.unflatten(-1, (1, -1))\n",
    check="kernels.op_values[op=layernorm.mixer*]",
    defect="all groups share one mean",
    says="the gated norm of",
)
op(
    "GroupOfOtherRanks",
    old="    if op.n_groups % op.tp_size:\n        return NotImplemented\n",
    new="    if op.n_groups % op.tp_size:\n        return _normalised(x.float(), op.variance_epsilon).to(x.dtype)\n",
    check="kernels.op_values",
    defect="a group whose columns lie on several ranks is normalised from one rank's",
    says="ranks share",
)
op(
    "TanhForBoth",
    old="gelu(gate, approximate=op.approximate)",
    new='gelu(gate, approximate="tanh")',
    check="kernels.op_values[op=activation.gelu*]",
    defect="gelu is computed in its tanh form also where the model has the exact one",
    says="approximate='none'",
)
op(
    "GeluOfTheSecondHalf",
    old="    gate, up = x.float().chunk(2, dim=-1)\n    return (gelu(",
    new="    up, gate = x.float().chunk(2, dim=-1)\n    return (gelu(",
    check="kernels.op_values[op=activation.gelu*]",
    defect="the second half is taken for the gate",
    says="gelu_and_mul",
)
op(
    "NewGeluByErf",
    old='    return gelu(x.float(), approximate="tanh").to(x.dtype)',
    new="    return gelu(x.float()).to(x.dtype)",
    check="kernels.op_values[op=activation.*]",
    defect="NewGELU is computed by erf",
    says="gelu_tanh",
)
op(
    "QuickGeluIsSilu",
    old="torch.sigmoid(1.702 * x.float())",
    new="torch.sigmoid(x.float())",
    check="kernels.op_values[op=activation.*]",
    defect="QuickGELU lacks its factor",
    says="quick_gelu",
)
op(
    "ReluNotSquared",
    old="x.float().clamp(min=0).square()",
    new="x.float().square()",
    check="kernels.op_values[op=activation.*]",
    defect="what is below zero is squared as well",
    says="relu2",
)
op(
    "AxesInOneOrder",
    old="        if op.mrope_interleaved:\n",
    new="        if False:\n",
    check="kernels.op_values[op=rotary.mrope*]",
    defect="interleaved sections are taken one after the other",
    says="interleaved",
)
op(
    "TimeForAllAxes",
    old="        chosen = axes.repeat(2).to(table.device)\n",
    new="        chosen = (axes * 0).repeat(2).to(table.device)\n",
    check="kernels.op_values[op=rotary.mrope*]",
    defect="all pairs turn by the position in time",
    says="3 axes",
)
op(
    "SinesOfAnotherAxis",
    old="        chosen = axes.repeat(2).to(table.device)\n",
    new="        chosen = torch.cat((axes, axes.flip(0))).to(table.device)\n",
    check="kernels.op_values[op=rotary.mrope*]",
    defect="the sines are taken in another order than the cosines",
    says="3 axes",
)
op(
    "OffsetsLeftOut",
    old="    where = positions if offsets is None else positions + offsets\n",
    new="    where = positions\n",
    check="kernels.op_values[op=rotary.deepseek*]",
    defect="offsets are not added to the positions",
    says="by heads",
)
op(
    "SharedKeyNotRotated",
    old="    table = op.cos_sin_cache.float()[where.flatten()]\n"
    "    return _turned(op, table, query), _turned(op, table, key)\n",
    new="    table = op.cos_sin_cache.float()[where.flatten()]\n"
    "    return _turned(op, table, query), key if key.shape[1] == 1 else _turned(op, table, key)\n",
    check="kernels.op_values[op=rotary.deepseek*]",
    defect="a key that all heads share is not rotated",
    says="the key by heads",
)
op(
    "TopKNotRenormalised",
    old="    if config.renormalize:\n",
    new="    if config.renormalize and config.top_k == 1:\n",
    check="kernels.op_values[op=moe.topk*]",
    defect="the weights are not divided by their sum",
    says="the weight of expert",
)
op(
    "SoftmaxOverTheChosen",
    old="    weights, ids = torch.softmax(router_logits.float(), dim=-1).topk(config.top_k)\n",
    new="    weights, ids = router_logits.float().topk(config.top_k)\n    weights = torch.softmax(weights, dim=-1)\n",
    check="kernels.op_values[op=moe.topk*]",
    defect="the softmax is over the chosen experts alone, also where the model does not renormalise",
    says="the weight of expert",
)
op(
    "TheFirstExperts",
    old="    weights, ids = torch.softmax(router_logits.float(), dim=-1).topk(config.top_k)\n",
    new="    weights, ids = torch.softmax(router_logits.float(), dim=-1).topk(config.top_k)\n"
    "    ids = ids.clamp(max=127)\n",
    check="kernels.op_values[op=moe.topk*]",
    defect="experts past 128 are counted in seven bits",
    says="gets the experts",
)
op(
    "ScoresAlwaysSoftmax",
    old='    if other or config.scoring_func not in (None, "softmax"):\n',
    new="    if other:\n",
    check="kernels.op_values",
    defect="a choice by sigmoid is made by softmax",
    says="by sigmoid",
)
op(
    "GroupsAndBiasOverlooked",
    old="    other = config.use_grouped_topk or config.correction_bias is not None or config.custom_routing_function\n",
    new="    other = config.custom_routing_function\n",
    check="kernels.op_values",
    defect="groups of experts, and the bias of a choice, are overlooked",
    says="by groups",
)
op(
    "LayerNormKeepsItsBias",
    old="        y = y + op.bias.float()\n",
    new="        y = y + op.__dict__.setdefault('_kept', op.bias.detach().float().clone())\n",
    check="kernels.op_calls_follow_each_other",
    defect="a layer norm keeps a copy of its bias from the first call: an update of the weights is not seen",
    says="of layernorm.layer_norm",
)
