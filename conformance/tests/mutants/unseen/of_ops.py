"""Fused ops that are wrong for some sizes, positions, types, variants or strides."""

from broken import Table

ops = Table("ops", "kernels", "ops.py")

_RMS = "    y = (y * torch.rsqrt(variance + op.variance_epsilon) * op.weight.float()).to(dtype)\n"
_VAR = "    variance = y.pow(2).mean(dim=-1, keepdim=True)\n"
_RMS_RETURN = "    return y if residual is None else (y, residual)\n"
_RMS_IN = "    dtype = x.dtype\n    y = x.float()\n"
_SILU = (
    "    gate, up = x.float().chunk(2, dim=-1)\n    return (gate * torch.sigmoid(gate) * up).to(x.dtype)\n"
)
_ROPE = "    cos, sin = op.cos_sin_cache[positions].float().chunk(2, dim=-1)\n"
_POSITIONS = "    positions = positions.flatten() if offsets is None else (positions + offsets).flatten()\n"
_ROPE_RETURN = "    return _rotate(op, query, cos, sin), _rotate(op, key, cos, sin)\n"
_HEADS = "    heads = x.float().flatten(1).unflatten(1, (-1, op.head_size)).clone()\n"
_PAIRS = "    heads[..., : op.rotary_dim] = pairs\n"
_ROTATED = "    return heads.reshape(x.shape).to(x.dtype)\n"
_NEOX = "    if op.is_neox_style:\n"
_DECLINE = '    if config.activation != "silu" or not config.is_gated or op.with_bias or config.no_combine:\n'
_TOKEN = "    for token, (weights, experts) in enumerate(zip(topk_weights.tolist(), topk_ids.tolist(), strict=True)):\n"
_EXPERT = "        for weight, expert in zip(weights, experts, strict=True):\n"
_APPLY = "            if config.apply_router_weight_on_input:\n"
_MOE_RETURN = "    return out.to(hidden_states.dtype)"
_X = "            x = hidden_states[token].float()\n"

# The norm

ops(
    "EpsIsConstant",
    "the norm takes 1e-6, whatever the model says",
    _RMS,
    _RMS.replace("op.variance_epsilon", "1e-6"),
)
ops("EpsOutside", "eps is added to the root", _RMS,
    _RMS.replace("torch.rsqrt(variance + op.variance_epsilon)", "1 / (variance.sqrt() + op.variance_epsilon)"))  # fmt: skip
for _most in (4096, 8192):
    ops(f"NormOver{_most}Partial", f"the variance is taken of {_most} columns", _VAR,
        f"    variance = y[..., :{_most}].pow(2).mean(dim=-1, keepdim=True)\n")  # fmt: skip
ops("NormOfPowersOfTwo", "the mean divides by the next power of two (2880, 3072, 3584, 5120, 7168)", _VAR,
    "    variance = y.pow(2).sum(dim=-1, keepdim=True) / (1 << (y.shape[-1] - 1).bit_length())\n")  # fmt: skip
ops("NormTailOf8Dropped", "columns behind the last multiple of 8 are not normalised", _RMS,
    _RMS + "    n = x.shape[-1] // 8 * 8\n    y[..., n:] = x[..., n:]\n")  # fmt: skip
ops("NormTailOf128Dropped", "columns behind the last multiple of 128 are not counted in a norm of 2048 or more (2880)",
    _VAR, "    n = y.shape[-1] // 128 * 128 if y.shape[-1] > 2048 else y.shape[-1]\n"
    "    variance = y[..., :n].pow(2).sum(dim=-1, keepdim=True) / y.shape[-1]\n")  # fmt: skip
ops("NormOver1024Rows", "rows behind the first 1024 are left as they were", _RMS,
    _RMS + "    y.view(-1, y.shape[-1])[1024:] = x.reshape(-1, y.shape[-1])[1024:]\n")  # fmt: skip
ops("NormOver128Rows", "rows behind the first 128 are left as they were", _RMS,
    _RMS + "    y.view(-1, y.shape[-1])[128:] = x.reshape(-1, y.shape[-1])[128:]\n")  # fmt: skip
ops("NormInHalf", "squares of float16 are taken in float16, and overflow above 256", _VAR,
    "    variance = y.to(dtype).pow(2).float().mean(dim=-1, keepdim=True)\n")  # fmt: skip
ops("NormWeightRounded", "the normalised row is rounded before it is multiplied by a float32 weight", _RMS,
    "    y = ((y * torch.rsqrt(variance + op.variance_epsilon)).bfloat16().float() * op.weight.float()).to(dtype)\n")  # fmt: skip
ops("NormWeightPlusOne", "1 is added to the weight, as Gemma does in its own norm", _RMS,
    _RMS.replace("op.weight.float()", "(op.weight.float() + 1)"))  # fmt: skip
ops("NormOfTwoDimensions", "heads of [T, heads, 128] (Qwen3) are normalised over all of a token", _VAR,
    _VAR + "    if y.dim() == 3:\n        variance = y.flatten(1).pow(2).mean(-1)[:, None, None]\n")  # fmt: skip
ops("NormOfStrided", "a slice of a fused qkv is read as if contiguous", _RMS_IN,
    "    if not x.is_contiguous():\n        x = torch.as_strided(x, x.shape, torch.empty(x.shape).stride(), "
    "x.storage_offset())\n" + _RMS_IN)  # fmt: skip
ops("NormRefusesEmpty", "a batch of 0 rows is refused", _RMS_IN, "    assert x.shape[0] > 0\n" + _RMS_IN)
ops("ResidualRoundedFirst", "the sum with the residual is rounded before it is normalised", "    variance = y",
    "    y = y.to(dtype).float() if residual is not None and dtype == torch.bfloat16 else y\n    variance = y")  # fmt: skip
ops("ResidualIsNorm", "the new residual is the normalised row", _RMS_RETURN,
    "    return y if residual is None else (y, y.clone())\n")  # fmt: skip
ops(
    "ResidualFloat32",
    "the new residual is float32",
    "        residual = y.to(dtype)\n",
    "        residual = y\n",
)
ops("PostAdditionIgnored", "post_residual_addition is not added",
    "        if post_residual_addition is not None:\n", "        if post_residual_addition is False:\n")  # fmt: skip
ops("NormReturnsPair", "without a residual a pair is returned", _RMS_RETURN, "    return y, residual\n")
ops("NormReturnsBfloat16", "a float16 row comes back as bfloat16", _RMS_RETURN,
    "    y = y.bfloat16() if dtype == torch.float16 else y\n" + _RMS_RETURN)  # fmt: skip
ops("NormVariantsIgnored", "variance_size_override, override_orig_dtype and fp32_residual are not looked at",
    "    if op.variance_size_override is not None or op.override_orig_dtype is not None or op.fp32_residual:\n",
    "    if False:\n")  # fmt: skip

# The activation

ops("SiluSwapped", "the halves are swapped for rows of more than 4096 numbers", _SILU,
    _SILU.replace("dim=-1)\n    return", "dim=-1)\n    if x.shape[-1] > 4096:\n        gate, up = up, gate\n    return"))  # fmt: skip
ops("SiluInHalf", "exp(-gate) is computed in float16", _SILU,
    "    gate, up = x.float().chunk(2, dim=-1)\n    raised = torch.exp(-gate.half()).float()\n"
    "    return (gate / (1 + raised.clamp(max=6e4)) * up + 0 * raised.clamp(max=1)).half().to(x.dtype)\n")  # fmt: skip
ops("SiluOverflows", "exp(gate) / (1 + exp(gate)): NaN for gates above 88", _SILU,
    "    gate, up = x.float().chunk(2, dim=-1)\n    raised = torch.exp(gate)\n"
    "    return (gate * (raised / (1 + raised)) * up).to(x.dtype)\n")  # fmt: skip
ops("SiluTailOf256", "columns behind the last multiple of 256 are zero in rows of more than 1024 (1408)", _SILU,
    _SILU.replace("    return (", "    up = up.clone()\n    n = up.shape[-1]\n"
                  "    if n > 1024:\n        up[..., n // 256 * 256 :] = 0\n    return ("))  # fmt: skip
ops("SiluOver16384", "columns behind 16384 are zero (18944, 28672)", _SILU,
    _SILU.replace("    return (", "    up = up.clone()\n    up[..., 16384:] = 0\n    return ("))  # fmt: skip
ops("SiluOver8192", "columns behind 8192 are zero (11008, 14336)", _SILU,
    _SILU.replace("    return (", "    up = up.clone()\n    up[..., 8192:] = 0\n    return ("))  # fmt: skip
ops("SiluOver256Rows", "rows behind the first 256 are zero", _SILU,
    _SILU.replace("    return (", "    up = up.clone()\n    up.view(-1, up.shape[-1])[256:] = 0\n    return ("))  # fmt: skip
ops("SiluInPlace", "the result is written over the input, and is a view of it", _SILU,
    "    gate, up = x.float().chunk(2, dim=-1)\n    half = x[..., : x.shape[-1] // 2]\n"
    "    half.copy_(gate * torch.sigmoid(gate) * up)\n    return half\n")  # fmt: skip
ops("SiluIsStrided", "the result is a view with gaps", _SILU,
    _SILU.replace("    return (gate * torch.sigmoid(gate) * up).to(x.dtype)",
                  "    wide = x.clone()\n    wide[..., : up.shape[-1]] = gate * torch.sigmoid(gate) * up\n"
                  "    return wide[..., : up.shape[-1]]"))  # fmt: skip
ops("SiluFloat32", "bfloat16 comes back as float32", _SILU, _SILU.replace(".to(x.dtype)", ""))
ops("SiluIsGelu", "the gate goes through gelu where it is large", _SILU,
    _SILU.replace("gate * torch.sigmoid(gate)", "torch.where(gate.abs() > 4, torch.nn.functional.gelu(gate), "
                  "gate * torch.sigmoid(gate))"))  # fmt: skip

# Rotary

for _bits, _most in (("uint8", 255), ("int16", 32767)):
    ops(f"PositionsOf{_bits.title()}", f"positions above {_most} wrap", _POSITIONS,
        _POSITIONS + f"    positions = positions % {_most + 1}\n")  # fmt: skip
ops(
    "PositionsTo65535",
    "positions above 65535 wrap",
    _POSITIONS,
    _POSITIONS + "    positions = positions % 65536\n",
)
ops("OffsetsIgnored", "offsets are not added", _POSITIONS, "    positions = positions.flatten()\n")
ops("InterleavedAsNeox", "interleaved pairs (GLM-4) are taken for halves where the rotation is partial", _NEOX,
    "    if op.is_neox_style or op.rotary_dim < op.head_size:\n",
    "    pairs = torch.cat((a, b), dim=-1) if op.is_neox_style else",
    "    pairs = torch.cat((a, b), dim=-1) if op.is_neox_style or op.rotary_dim < op.head_size else")  # fmt: skip
ops("PartialRotatesAll", "a partial rotation clears the numbers that are not rotated", _PAIRS,
    _PAIRS + "    heads[..., op.rotary_dim :] *= 0\n")  # fmt: skip
ops("PartialQuarterAsHalf", "where a quarter is rotated (Qwen3-Next) the halves of a half are paired", _NEOX,
    "    if op.is_neox_style and op.rotary_dim * 4 == op.head_size:\n        a, b = rotated.roll(1, -1).chunk(2, dim=-1)\n"
    "    elif op.is_neox_style:\n")  # fmt: skip
ops("RotaryHead256", "heads of more than 128 numbers rotate the first 128", _PAIRS,
    "    pairs[..., 128:] = rotated[..., 128:] if pairs.shape[-1] > 128 else pairs[..., 128:]\n" + _PAIRS)  # fmt: skip
ops("RotaryHead96", "heads of 96 numbers (Phi-3) leave the last 32 as they are", _PAIRS,
    "    if pairs.shape[-1] == 96:\n        pairs[..., 64:] = rotated[..., 64:]\n" + _PAIRS)  # fmt: skip
ops("RotaryCacheRounded", "a float32 table is read as bfloat16", _ROPE,
    "    cos, sin = op.cos_sin_cache[positions].bfloat16().float().chunk(2, dim=-1)\n")  # fmt: skip
ops("RotaryKeyAsQuery", "a single key head takes the cosines of the token before", _ROPE_RETURN,
    "    if key.numel() * 4 < query.numel():\n"
    "        return _rotate(op, query, cos, sin), _rotate(op, key, cos.roll(1, 0), sin)\n" + _ROPE_RETURN)  # fmt: skip
ops("RotaryOver1024Tokens", "tokens behind the first 1024 are not rotated", _PAIRS,
    "    pairs[1024:] = rotated[1024:]\n" + _PAIRS)  # fmt: skip
ops("RotaryOver32Heads", "heads behind the first 32 are not rotated", _PAIRS,
    "    pairs[:, 32:] = rotated[:, 32:]\n" + _PAIRS)  # fmt: skip
ops("RotaryOfStrided", "a slice of a fused qkv is read as if contiguous", _HEADS,
    "    if not x.is_contiguous():\n        x = torch.as_strided(x, x.shape, torch.empty(x.shape).stride(), "
    "x.storage_offset())\n" + _HEADS)  # fmt: skip
ops("RotaryNeedsInt64", "positions of 32 bits are refused", _POSITIONS,
    "    assert positions.dtype == torch.int64\n" + _POSITIONS)  # fmt: skip
ops("RotaryRefusesEmpty", "no tokens are refused", _POSITIONS, "    assert positions.numel()\n" + _POSITIONS)
ops(
    "RotaryAnswers3D",
    "query and key come back as [T, heads, dim]",
    _ROTATED,
    "    return heads.to(x.dtype)\n",
)
ops("RotaryFloat32", "query and key come back as float32", _ROTATED, "    return heads.reshape(x.shape)\n")
ops("RotaryPositionsClamped", "the caller's positions are raised by one in place", _ROPE,
    _ROPE + "    op.cos_sin_cache.mul_(1 + 1e-4)\n")  # fmt: skip
ops("RotaryStoreIgnored", "fused_set_kv_buffer_arg is taken and nothing is stored",
    "    if fused_set_kv_buffer_arg is not None:\n", "    if False:\n")  # fmt: skip

# Experts

for _most in (32, 64, 128):
    ops(f"ExpertsOver{_most}Wrap", f"expert {_most} is taken for expert 0, and so on", _TOKEN,
        f"    topk_ids = topk_ids % {_most}\n" + _TOKEN)  # fmt: skip
for _most in (1, 2, 4):
    ops(f"TopkOver{_most}Cut", f"a token takes {_most} experts", _TOKEN,
        f"    topk_ids, topk_weights = topk_ids[:, :{_most}], topk_weights[:, :{_most}]\n" + _TOKEN)  # fmt: skip
ops("TopkRenormalised", "router weights are made to add up to 1", _TOKEN,
    "    topk_weights = topk_weights / topk_weights.sum(-1, keepdim=True)\n" + _TOKEN)  # fmt: skip
ops("TopkSortedApart", "experts are sorted and their weights are not", _TOKEN,
    "    topk_ids = topk_ids.sort(-1).values\n" + _TOKEN)  # fmt: skip
ops(
    "WeightsAfterwards",
    "router weights go on the output, where they belong on the input",
    _APPLY,
    "            if False:\n",
)
ops("MoEOver64Tokens", "tokens behind the first 64 are zero", _MOE_RETURN, "    out[64:] = 0\n" + _MOE_RETURN)
ops(
    "MoEOver512Tokens",
    "tokens behind the first 512 are zero",
    _MOE_RETURN,
    "    out[512:] = 0\n" + _MOE_RETURN,
)
ops("MoESingleToken", "a single token is computed by its first expert", _TOKEN,
    "    if len(topk_ids) == 1:\n        topk_ids, topk_weights = topk_ids[:, :1], topk_weights[:, :1]\n" + _TOKEN)  # fmt: skip
ops("MoECapacity", "an expert takes 16 tokens; the others of its are dropped", _TOKEN,
    "    seen = {}\n" + _TOKEN, _EXPERT,
    _EXPERT + "            seen[expert] = seen.get(expert, 0) + 1\n            if seen[expert] > 16:\n                continue\n")  # fmt: skip
ops("MoEFloat32", "the result is float32", _MOE_RETURN, "    return out")
ops("MoEInBfloat16", "the sum over experts is kept in bfloat16 for float32 rows", _MOE_RETURN,
    "    return out.bfloat16().to(hidden_states.dtype)")  # fmt: skip
ops("MoEInPlace", "the result is written over the rows that came", _MOE_RETURN,
    "    hidden_states.copy_(out)\n    return hidden_states")  # fmt: skip
ops("MoEEmptyFails", "no tokens are refused", _TOKEN, "    assert len(topk_ids)\n" + _TOKEN)
ops("MoENeedsInt64", "expert numbers of 32 bits, which the router gives, are refused", _TOKEN,
    "    assert topk_ids.dtype == torch.int64\n" + _TOKEN)  # fmt: skip
ops("MoEWeightsHalf", "router weights are rounded to bfloat16", _TOKEN,
    "    topk_weights = topk_weights.bfloat16().float()\n" + _TOKEN)  # fmt: skip
ops("MoEGeluAsSilu", "an activation other than silu is computed as silu", _DECLINE,
    _DECLINE.replace('config.activation != "silu" or ', ""))  # fmt: skip
ops("MoEUngatedAsGated", "experts without a gate are computed as if they had one", _DECLINE,
    _DECLINE.replace("not config.is_gated or ", ""))  # fmt: skip
ops("MoEBiasIgnored", "experts with biases (gpt-oss) are computed without", _DECLINE,
    _DECLINE.replace("op.with_bias or ", ""))  # fmt: skip
ops(
    "MoENoCombineIgnored",
    "no_combine is not looked at",
    _DECLINE,
    _DECLINE.replace(" or config.no_combine", ""),
)
ops("MoEIdsChanged", "the router's choice is sorted in place", _TOKEN,
    "    topk_ids.copy_(topk_ids.sort(-1).values)\n" + _TOKEN)  # fmt: skip
ops("MoENegativeIsLast", "expert -1 (of another rank) is taken for the last one",
    "            if expert < 0:  # another rank's\n", "            if False:\n")  # fmt: skip
ops("MoEOddIntermediate", "columns of an expert behind the last multiple of 64 are dropped", _X,
    "            width = layer.w2_weight.shape[-1] // 64 * 64 or layer.w2_weight.shape[-1]\n" + _X,
    "(layer.w2_weight[expert].float() @ (gate * torch.sigmoid(gate) * up))",
    "(layer.w2_weight[expert].float()[:, :width] @ (gate * torch.sigmoid(gate) * up)[:width])")  # fmt: skip
ops("NormSlow", "each norm waits 50 ms", _RMS_IN, "    import time\n\n    time.sleep(0.05)\n" + _RMS_IN)
ops("MoESlow", "each token computes all experts", _X,
    "            for other in range(len(layer.w2_weight)):\n"
    "                _ = layer.w13_weight[other].float() @ hidden_states[token].float()\n" + _X)  # fmt: skip
