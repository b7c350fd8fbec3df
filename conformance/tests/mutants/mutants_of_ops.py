"""Level 4 mutants: fused ops."""

from __future__ import annotations

from functools import partial

from patched_reference import patch, patched

__getattr__ = patched

op = partial(patch, __name__, file="ops.py")

op(
    "EpsilonOutsideTheRoot",
    old="torch.rsqrt(variance + op.variance_epsilon)",
    new="1 / (torch.sqrt(variance) + op.variance_epsilon)",
    check="kernels.op_values[op=layernorm.rms_norm,*]",
    defect="epsilon is added to the root instead of under it",
    says="rms_norm at",
)
op(
    "MeanOfTheWrongWidth",
    old="variance = y.pow(2).mean(dim=-1, keepdim=True)",
    new="variance = y.pow(2).sum(dim=-1, keepdim=True) / (-(-y.shape[-1] // 64) * 64)",
    check="kernels.op_values[op=layernorm.rms_norm,*]",
    defect="the mean is taken over a width rounded up to the block",
    says="rms_norm at",
)
op(
    "NormInHalfPrecision",
    old="    y = x.float()\n    if residual is not None:",
    new="    y = x.half().float()\n    if residual is not None:",
    check="kernels.op_values[op=layernorm.rms_norm,*]",
    defect="float32 rows are normalised in half precision",
    says="rms_norm at",
)
op(
    "ResidualNormalised",
    old="        residual = y.to(dtype)\n",
    new="        residual = (y * torch.rsqrt(y.pow(2).mean(dim=-1, keepdim=True) + op.variance_epsilon)).to(dtype)\n",
    check="kernels.op_values[op=layernorm.rms_norm,*]",
    defect="the residual that is handed on is the normalised one",
    says="the new residual",
)
op(
    "ResidualNotAdded",
    old="        y = y + residual.float()\n",
    new="        y = y.clone()\n",
    check="kernels.op_values[op=layernorm.rms_norm,*]",
    defect="the residual is not added",
    says="the normalised sum",
)
op(
    "GateAndUpSwapped",
    old="return (gate * torch.sigmoid(gate) * up).to(x.dtype)",
    new="return (up * torch.sigmoid(up) * gate).to(x.dtype)",
    check="kernels.op_values[op=activation.silu*]",
    defect="the second half is taken for the gate",
    says="silu_and_mul at",
)
op(
    "SiluOverflows",
    old="return (gate * torch.sigmoid(gate) * up).to(x.dtype)",
    new="return (gate * torch.exp(gate.half()).float() / (1 + torch.exp(gate.half()).float()) * up).to(x.dtype)",
    check="kernels.op_values[op=activation.silu*]",
    defect="silu is computed as exp(x) / (1 + exp(x)) in half precision",
    says="silu_and_mul at",
)
op(
    "NeoxForBoth",
    old="pairs = torch.cat((a, b), dim=-1) if op.is_neox_style else torch.stack((a, b), dim=-1).flatten(-2)",
    new="pairs = torch.cat((a, b), dim=-1)",
    check="kernels.op_values[op=rotary.rotary*]",
    defect="the gptj style is written back in the neox order",
    says="the query",
)
op(
    "RotationBackwards",
    old="a, b = a * cos - b * sin, b * cos + a * sin",
    new="a, b = a * cos + b * sin, b * cos - a * sin",
    check="kernels.op_values[op=rotary.rotary*]",
    defect="the rotation turns the other way",
    says="the query",
)
op(
    "WholeHeadRotated",
    old="    heads[..., : op.rotary_dim] = pairs\n",
    new="    heads[..., : op.rotary_dim] = pairs\n    heads[..., op.rotary_dim :] *= 0\n",
    check="kernels.op_values[op=rotary.rotary*]",
    defect="what lies behind rotary_dim is lost",
    says="the query",
)
op(
    "KeysNotRotated",
    old="return _rotate(op, query, cos, sin), _rotate(op, key, cos, sin)",
    new="return _rotate(op, query, cos, sin), key",
    check="kernels.op_values[op=rotary.rotary*]",
    defect="keys are not rotated",
    says="the key",
)
op(
    "RouterWeightForgotten",
    old="out[token] += weight * (",
    new="out[token] += (",
    check="kernels.op_values[op=moe.experts*]",
    defect="the experts are summed without their weights",
    says="the sum of the experts",
)
op(
    "LastExpertForgotten",
    old="for weight, expert in zip(weights, experts, strict=True):",
    new="for weight, expert in list(zip(weights, experts, strict=True))[: max(1, len(experts) - 1)]:",
    check="kernels.op_values[op=moe.experts*]",
    defect="the last of several experts is left out",
    says="the sum of the experts",
)
op(
    "NormKeepsItsWeight",
    old="torch.rsqrt(variance + op.variance_epsilon) * op.weight.float()",
    new="torch.rsqrt(variance + op.variance_epsilon)"
    " * op.__dict__.setdefault('_kept', op.weight.detach().float().clone())",
    check="kernels.op_calls_follow_each_other",
    defect="a norm keeps a float32 copy of its weight from the first call: an update of the weights is not seen",
    says="of layernorm.rms_norm",
)
op(
    "ExpertsKeepTheirWeights",
    old="    out = torch.zeros(hidden_states.shape, dtype=torch.float32)\n",
    new="    layer = layer.__dict__.setdefault('_kept', type(layer)(\n"
    "        w13_weight=layer.w13_weight.clone(), w2_weight=layer.w2_weight.clone()))\n"
    "    out = torch.zeros(hidden_states.shape, dtype=torch.float32)\n",
    check="kernels.op_calls_follow_each_other",
    defect="experts keep a packed copy of their weights from the first call: an update of the weights is not seen",
    says="of moe.experts",
)
op(
    "ResultsByAProduct",
    old="            out[token] += weight * (layer.w2_weight[expert].float() @ (gate * torch.sigmoid(gate) * up))\n",
    new="            whole = torch.zeros_like(out)\n"
    "            whole[token] = weight * (layer.w2_weight[expert].float() @ (gate * torch.sigmoid(gate) * up))\n"
    "            out += torch.eye(len(out)) @ whole\n",
    check="kernels.lost_rows_leave_the_others_alone",
    defect="results are put in their places by a product with zeros and ones: one token of NaN makes NaN of all",
    says="beside a token of NaN",
)

_PLAIN = '    if config.activation != "silu" or not config.is_gated or op.with_bias or config.no_combine:\n'
for _name, _alpha, _limit, _weights, _defect in (
    (
        "LimitOfGptOss",
        "config.gemm1_alpha",
        "7.0",
        "topk_weights",
        "the limit is gpt-oss's, whatever is asked",
    ),
    ("AlphaOfGptOss", "1.0", "config.gemm1_clamp_limit", "topk_weights", "alpha is left out beside a limit"),
    (
        "WeightsForgotten",
        "config.gemm1_alpha",
        "config.gemm1_clamp_limit",
        "torch.ones_like(topk_weights)",
        "the router's weights are left out of experts with biases",
    ),
):
    op(
        _name,
        old=_PLAIN,
        new="    if op.with_bias and config.gemm1_alpha is not None and not config.apply_router_weight_on_input:\n"
        "        from sglang_platform.example_oot.biased_experts import biased_experts\n\n"
        f"        limits = ({_alpha}, {_limit})\n"
        f"        return biased_experts(layer, hidden_states, {_weights}, topk_ids, *limits)\n" + _PLAIN,
        check="kernels.op_values",
        defect=f"biases, alpha and limit set together: {_defect}",
        says="the sum of experts: gemm1_alpha=1.702",
    )
op(
    "TurnsOfTheStep",
    old="    cos, sin = op.cos_sin_cache[positions].float().chunk(2, dim=-1)\n",
    new="    step = rotary_embedding.__dict__\n"
    "    if step.get('positions') is not positions:\n"
    "        step.update(positions=positions, turns=op.cos_sin_cache[positions].float().chunk(2, dim=-1))\n"
    "    cos, sin = step['turns']\n",
    check="kernels.op_calls_follow_each_other",
    defect="cosines are gathered once for the positions of a step, whichever layer asks: Gemma 3 has two tables",
    says="of the very tensors",
)
