"""A second set: fused ops that keep what they saw first, or are wrong for strides, widths and values of some models."""

from broken import Edit, Table, at

ops = Table("ops 2", "kernels", "more_ops.py")


def base(old: str, new: str) -> Edit:
    return at("ops.py", old, new)


_LEFT = "def _normalised(x: torch.Tensor, epsilon: float) -> torch.Tensor:\n"
_FLAT = "    x = x if x.is_contiguous() else torch.as_strided(x, x.shape, x.contiguous().stride(), x.storage_offset())\n"
_GEMMA = "    y = x.float() if residual is None else x.float() + residual.float()\n"
_LAYER = "    centred = x.float() - x.float().mean(dim=-1, keepdim=True)\n"
_GELU = "    return (gelu(gate, approximate=op.approximate) * up).to(x.dtype)\n"
_TABLE = "    table = op.cos_sin_cache.float()[positions]\n"
_TURNED = "    heads = x.float().flatten(1).unflatten(1, (-1, op.head_size))\n    half = cos.shape[-1]\n"
_DEEPSEEK = "    return _turned(op, table, query), _turned(op, table, key)\n\n\ndef _turned"
_TOPK = "    weights, ids = torch.softmax(router_logits.float(), dim=-1).topk(config.top_k)\n"
_RMS = "    y = (y * torch.rsqrt(variance + op.variance_epsilon) * op.weight.float()).to(dtype)\n"
_ROTARY = "    cos, sin = op.cos_sin_cache[positions].float().chunk(2, dim=-1)\n"
_EXPERTS = "    out = torch.zeros(hidden_states.shape, dtype=torch.float32)\n"

# What is kept from the first call

ops("NormKeepsItsWeight", "a norm keeps a float32 copy of its weight from the first call: an update of the weights is not seen",
    base(_RMS, "    kept = op.__dict__.setdefault('_kept', op.weight.detach().float().clone())\n" + _RMS.replace("op.weight.float()", "kept")))  # fmt: skip
ops("ExpertsKeepTheirWeights", "experts keep a packed copy of their weights from the first call: an update is not seen",
    base(_EXPERTS, "    import types\n\n    layer = layer.__dict__.setdefault('_packed', types.SimpleNamespace(\n"
         "        w13_weight=layer.w13_weight.detach().clone(), w2_weight=layer.w2_weight.detach().clone()))\n" + _EXPERTS))  # fmt: skip
ops("RotaryTableOfTheFirstLayer", "the table of the first rotary embedding of a head size serves all: Gemma-3 has two",
    base(_ROTARY, _ROTARY.replace("op.cos_sin_cache[", "_FIRST.setdefault(op.head_size, op.cos_sin_cache)[")),
    base("def rms_norm(\n", "_FIRST: dict = {}\n\n\ndef rms_norm(\n"))  # fmt: skip
ops("NormEpsilonOfTheFirstLayer", "the epsilon of the first norm of a width serves all norms of that width",
    base(_RMS, _RMS.replace("op.variance_epsilon", "_FIRST.setdefault(x.shape[-1], op.variance_epsilon)")),
    base("def rms_norm(\n", "_FIRST: dict = {}\n\n\ndef rms_norm(\n"))  # fmt: skip
ops("LayerNormKeepsItsBias", "a layer norm keeps a copy of its bias from the first call",
    "        y = y + op.bias.float()\n", "        y = y + op.__dict__.setdefault('_kept', op.bias.detach().float().clone())\n")  # fmt: skip

# Norms

ops("Gemma3HeadsAsOne", "heads of [T, heads, 256] (Gemma-3's query norm) are normalised over all of a token",
    "    return _gemma(op.weight, op.eps, x, residual)\n",
    "    if x.dim() == 3 and residual is None:\n        y = _normalised(x.float().flatten(1), op.eps).reshape(x.shape)\n"
    "        return (y * (1.0 + op.weight.float())).to(x.dtype)\n    return _gemma(op.weight, op.eps, x, residual)\n")  # fmt: skip
ops("Gemma4SliceMisread", "a slice of a fused qkv is read as if contiguous by Gemma-4's norm",
    "    y = _normalised(x.float(), op.eps)\n    if op.with_scale:\n", _FLAT + "    y = _normalised(x.float(), op.eps)\n    if op.with_scale:\n")  # fmt: skip
ops(
    "GemmaSliceMisread",
    "a slice of a wider row is read as if contiguous by Gemma's norm",
    _GEMMA,
    _FLAT + _GEMMA,
)
ops("GemmaOver128Rows", "rows behind the first 128 are left as they were by Gemma's norm",
    "    out = (_normalised(y, epsilon) * (1.0 + weight.float())).to(x.dtype)\n",
    "    out = (_normalised(y, epsilon) * (1.0 + weight.float())).to(x.dtype)\n    out[128:] = x[128:]\n")  # fmt: skip
ops("LayerNormTailOf256", "columns behind the last multiple of 256 (1152 of SigLIP) do not count in the mean", _LAYER,
    "    whole = x.shape[-1] // 256 * 256 or x.shape[-1]\n"
    "    centred = x.float() - x[..., :whole].float().mean(dim=-1, keepdim=True)\n")  # fmt: skip
ops("LayerNormNeedsTwoDimensions", "a layer norm of [B, S, H], as picture encoders call it, is refused", _LAYER,
    "    assert x.dim() == 2\n" + _LAYER)  # fmt: skip
ops(
    "LayerNormSliceMisread",
    "a slice of a wider row is read as if contiguous by the layer norm",
    _LAYER,
    _FLAT + _LAYER,
)
ops("LayerNormByOneMore", "the variance is the sum of squares by H - 1", "    y = _normalised(centred, op.variance_epsilon)\n",
    "    y = centred * torch.rsqrt(centred.square().sum(-1, keepdim=True) / max(1, x.shape[-1] - 1) + op.variance_epsilon)\n")  # fmt: skip
ops("MixerGateBySigmoid", "the gate of a Mamba-2 mixer's norm goes through sigmoid, not silu",
    "    y = x.float() * silu(gate.float())\n", "    y = x.float() * torch.sigmoid(gate.float())\n")  # fmt: skip
ops("MixerWithoutNormHasWeight", "a mixer without a norm multiplies by its weight all the same",
    "        return y.to(x.dtype)\n    groups", "        return (y * op.weight.float()).to(x.dtype)\n    groups")  # fmt: skip

# Activations

ops("GeluTanhByExp", "tanh is (e - 1) / (e + 1): NaN for large gates", _GELU,
    "    if op.approximate == 'tanh':\n        e = torch.exp(2 * 0.7978845608028654 * (gate + 0.044715 * gate**3))\n"
    "        return (0.5 * gate * (1 + (e - 1) / (e + 1)) * up).to(x.dtype)\n" + _GELU)  # fmt: skip
ops("GeluOver8192", "columns behind the first 8192 are zero (Gemma-2 has 14336, Gemma-3 15360)", _GELU,
    "    up = up.clone()\n    up[..., 8192:] = 0\n" + _GELU)  # fmt: skip
ops("GeluSliceMisread", "a slice of a wider row is read as if contiguous by GeluAndMul",
    "    gate, up = x.float().chunk(2, dim=-1)\n", _FLAT + "    gate, up = x.float().chunk(2, dim=-1)\n")  # fmt: skip
ops("QuickGeluByExp", "the sigmoid is e / (1 + e): NaN for large numbers",
    "    return (x.float() * torch.sigmoid(1.702 * x.float())).to(x.dtype)\n",
    "    e = torch.exp(1.702 * x.float())\n    return (x.float() * e / (1 + e)).to(x.dtype)\n")  # fmt: skip
ops("NewGeluNeedsTwoDimensions", "NewGELU of [B, S, H] is refused", '    return gelu(x.float(), approximate="tanh").to(x.dtype)\n',
    '    assert x.dim() == 2\n    return gelu(x.float(), approximate="tanh").to(x.dtype)\n')  # fmt: skip
ops("Relu2IsStrided", "ReLU2 answers with a view that has gaps", "    return x.float().clamp(min=0).square().to(x.dtype)\n",
    "    y = x.float().clamp(min=0).square().to(x.dtype)\n    return torch.stack((y, y), dim=-1)[..., 0]\n")  # fmt: skip

# Rotary embeddings

ops("MropeSlicedPositionsMisread", "positions that are a slice of [3, max], as a graph's static inputs are, are read as if contiguous", _TABLE,
    "    if not positions.is_contiguous():\n        positions = torch.as_strided(positions, positions.shape, (positions.shape[1], 1),\n"
    "                                     positions.storage_offset())\n" + _TABLE)  # fmt: skip
ops("MropeOfThirds", "sections are taken to be thirds of the pairs (Qwen2-VL has 16, 24, 24)", _TABLE,
    "    pairs_of_all = sum(op.mrope_section)\n" + _TABLE,
    "            axes = torch.repeat_interleave(torch.arange(3), torch.tensor(op.mrope_section))\n",
    "            axes = (torch.arange(pairs_of_all) * 3 // pairs_of_all).clamp(max=2)\n")  # fmt: skip
ops(
    "MropeTextRefused",
    "positions of one axis, as a text has, are refused",
    _TABLE,
    "    assert positions.dim() == 2\n" + _TABLE,
)
ops("MropeInterleavedRestByWidth", "pairs behind the interleaved sections turn by the width, not by the time",
    "pairs % 3, 0)\n", "pairs % 3, 2)\n")  # fmt: skip
ops("MropePositionsOf8Bits", "height and width of a picture are kept in 8 bits", _TABLE,
    "    if positions.dim() == 2:\n        positions = torch.cat((positions[:1], positions[1:] % 256))\n" + _TABLE)  # fmt: skip
ops("MropePartialClears", "what lies behind the rotated numbers of a head (GLM-4.1V turns half) is cleared",
    "    out = heads.clone()\n", "    out = heads.clone()\n    out[..., 2 * half :] = 0 if hasattr(op, 'mrope_section') else out[..., 2 * half :]\n")  # fmt: skip
ops("DeepseekSliceMisread", "the rotated part as models hand it over, a slice of a head's query, is read as if contiguous", _DEEPSEEK,
    "    query = query if query.is_contiguous() else torch.as_strided(\n"
    "        query, query.shape, query.contiguous().stride(), query.storage_offset())\n" + _DEEPSEEK)  # fmt: skip
ops("DeepseekStyleIgnored", "pairs are always neighbours, whatever is_neox_style says",
    "    if op.is_neox_style:\n        first, second = slice(0, half)",
    "    if op.is_neox_style and hasattr(op, 'mrope_section'):\n        first, second = slice(0, half)")  # fmt: skip
ops("DeepseekPositionsOver16384", "positions wrap at 16384", "    table = op.cos_sin_cache.float()[where.flatten()]\n",
    "    table = op.cos_sin_cache.float()[where.flatten() % 16384]\n")  # fmt: skip
ops("TurnedHeadsInPairs", "heads are turned in pairs: the last of an odd number is left as it was",
    base("    heads[..., : op.rotary_dim] = pairs\n",
         "    n = heads.shape[1]\n    n = n - 1 if n > 1 and n % 2 else n\n    heads[:, :n, : op.rotary_dim] = pairs[:, :n]\n"))  # fmt: skip

# Experts

ops(
    "TopKIn16Bits",
    "the softmax over the experts is computed in the router's 16 bits",
    _TOPK,
    _TOPK.replace("router_logits.float()", "router_logits").replace(
        ".topk(config.top_k)", ".float().topk(config.top_k)"
    ),
)
ops("TopKOfPowersOfTwo", "of 60 or 160 experts those behind the last power of two are never chosen", _TOPK,
    "    known = 1 << (router_logits.shape[-1].bit_length() - 1)\n"
    + _TOPK.replace(".topk(", "[:, :known].topk("))  # fmt: skip
ops(
    "TopKAnswersInt64",
    "experts are int64",
    "    return weights, ids.to(torch.int32)\n",
    "    return weights, ids\n",
)
ops("TopKOver6Cut", "a token gets 6 experts, where 8 are asked for: the others are expert 0 with no weight", _TOPK,
    _TOPK + "    ids[:, 6:], weights[:, 6:] = 0, 0.0\n")  # fmt: skip
ops("TopKOver256Tokens", "tokens behind the first 256 get the experts of the 256th", _TOPK,
    _TOPK + "    if len(ids) > 256:\n        ids[256:], weights[256:] = ids[255].clone(), weights[255].clone()\n")  # fmt: skip
ops("TopKEmptyFails", "no tokens are refused", _TOPK, "    assert len(router_logits)\n" + _TOPK)
ops("TopKSigmoidAsSoftmax", "scores by sigmoid are computed by softmax where there are no groups",
    '    if other or config.scoring_func not in (None, "softmax"):\n', "    if other:\n")  # fmt: skip
ops("TopKCustomRoutingIgnored", "a routing function of the model's (Llama 4) is not looked at",
    " or config.custom_routing_function\n", "\n")  # fmt: skip
ops("MoEForeignTokenStays", "a token all of whose experts are other ranks' comes back as it was, not as zero",
    base("    return out.to(hidden_states.dtype)\n",
         "    foreign = (topk_ids < 0).all(-1)\n    out[foreign] = hidden_states[foreign].float()\n    return out.to(hidden_states.dtype)\n"))  # fmt: skip
ops("MoELimitsIgnored", "limits of the activation (gpt-oss) are not looked at",
    base("        limit is not None for limit in (config.gemm1_alpha, config.gemm1_clamp_limit, config.swiglu_limit)\n",
         "        limit is not None for limit in ()\n"))  # fmt: skip
ops("MoEWeightOnInputOfMany", "router weights on the input are taken from the first expert for all",
    base("            if config.apply_router_weight_on_input:\n",
         "            if config.apply_router_weight_on_input:\n                weight = weights[0]\n"))  # fmt: skip
