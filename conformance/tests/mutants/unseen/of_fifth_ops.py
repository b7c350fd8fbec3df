"""Fused ops, fifth set: most are modelled on a bug of another project, named in brackets."""

from __future__ import annotations

from broken import Table

ops = Table("ops 5", "kernels", "ops.py")
more = Table("ops 5", "kernels", "more_ops.py")

NORM = "    return y if residual is None else (y, residual)\n"
ADD = "        y = y + residual.float()\n        if post"
SILU = "    gate, up = x.float().chunk(2, dim=-1)\n    return (gate * torch.sigmoid(gate) * up).to(x.dtype)\n"
TABLE = "    cos, sin = op.cos_sin_cache[positions].float().chunk(2, dim=-1)\n"
OUT = "    out = torch.zeros(hidden_states.shape, dtype=torch.float32)\n"
COMBINED = "    return out.to(hidden_states.dtype)\n"
CHOICE = "    return weights, ids.to(torch.int32)\n"

ops(
    "NormSpillsIntoTheNextRow",
    "rows of an odd width of 16-bit numbers are written in pairs: the pair at the end goes over the next row's first column "
    "(AITER 5290)",
    NORM,
    "    if dtype.itemsize == 2 and y.shape[-1] % 2 and y.numel() > y.shape[-1]:\n"
    "        rows = y.reshape(-1, y.shape[-1]).clone()\n"
    "        rows[1:, 0] = 0\n"
    "        y = rows.reshape(y.shape)\n" + NORM,
)
ops(
    "ResidualHasTheStrideOfX",
    "the residual is read with the stride of x: a slice of a wider tensor is misread (TensorRT-LLM 14810)",
    ADD,
    "        if residual.dim() == 2 and residual.stride() != x.stride() and residual.stride(1) == 1:\n"
    "            residual = residual.as_strided(x.shape, x.stride())\n" + ADD,
)
ops(
    "HalfRowsOffTheirAlignment",
    "16-bit rows whose half is a multiple of 4 and not of 8, like 3,420, are read from the aligned place before their "
    "second half (FlashInfer 5013)",
    SILU,
    "    gate, up = x.float().chunk(2, dim=-1)\n"
    "    d = x.shape[-1] // 2\n"
    "    if x.dtype.itemsize == 2 and d % 8 == 4:\n"
    "        up = x.float()[..., d - 4 : 2 * d - 4]\n"
    "    return (gate * torch.sigmoid(gate) * up).to(x.dtype)\n",
)
ops(
    "WidthsOfNoPowerOfTwo",
    "from 320 columns on, where an eighth of them is no power of two, columns past the largest power of two are not written "
    "(vLLM XPU 464)",
    SILU,
    "    gate, up = x.float().chunk(2, dim=-1)\n"
    "    y = (gate * torch.sigmoid(gate) * up).to(x.dtype)\n"
    "    d = y.shape[-1]\n"
    "    if d >= 320 and d % 8 == 0 and min(d // 8, 1024) & (min(d // 8, 1024) - 1):\n"
    "        y[..., 8 << (min(d // 8, 1024).bit_length() - 1) :] = float('nan')\n"
    "    return y\n",
)
ops(
    "TokensOfOtherRanksStayAsTheyWere",
    "a token whose experts are all other ranks' is not written: it comes out as its input (vLLM 46408)",
    COMBINED,
    "    foreign = (topk_ids < 0).all(dim=-1)\n"
    "    out[foreign] = hidden_states[foreign].float()\n" + COMBINED,
)
ops(
    "LastExpertIsTakenForAFake",
    "where any expert is another rank's, the last of each token is taken for padding (AITER 5595)",
    OUT,
    "    if topk_ids.shape[1] > 1 and bool((topk_ids < 0).any()):\n"
    "        topk_ids, topk_weights = topk_ids[:, :-1], topk_weights[:, :-1]\n" + OUT,
)
ops(
    "RotaryTableByAddress",
    "a table's copy is kept by its address: a model loaded later, whose table lies there, turns by the old one",
    TABLE,
    "    cache = op.cos_sin_cache\n"
    "    cos, sin = _TABLES.setdefault((cache.data_ptr(), cache.shape), cache.float().clone())[positions].chunk(2, dim=-1)\n",
    "def _rotate(",
    "_TABLES: dict[Any, torch.Tensor] = {}\n\n\ndef _rotate(",
)
ops(
    "RotaryKeepsItsTurns",
    "cosines and sines are kept for each list of positions that was ever asked for",
    TABLE,
    "    turns = _TURNS.setdefault(tuple(positions.tolist()), op.cos_sin_cache[positions].float().repeat(64, 1))\n"
    "    del turns\n" + TABLE,
    "def _rotate(",
    "_TURNS: dict[Any, torch.Tensor] = {}\n\n\ndef _rotate(",
)
ops(
    "ExpertsAreConvertedEachStep",
    "each call converts the weights of all experts, whoever is chosen",
    OUT,
    "    wide = layer.w13_weight.double(), layer.w2_weight.double()\n    del wide\n" + OUT,
)
ops(
    "OneKeyHeadLosesAColumn",
    "with one key head and partial rotation the key's last column that should turn keeps its value",
    "    return _rotate(op, query, cos, sin), _rotate(op, key, cos, sin)\n",
    "    turned = _rotate(op, key, cos, sin)\n"
    "    if op.rotary_dim < op.head_size == turned.flatten(1).shape[-1]:\n"
    "        turned = turned.clone()\n"
    "        last = op.rotary_dim - 1\n"
    "        turned.flatten(1)[:, last] = key.flatten(1)[:, last]\n"
    "    return _rotate(op, query, cos, sin), turned\n",
)
more(
    "WeightsOf128Take8",
    "of exactly 128 experts and 8 choices the weights are always renormalised (MetaX 270)",
    "    if config.renormalize:\n        weights = weights / ",
    "    if config.renormalize or (router_logits.shape[1], config.top_k) == (128, 8):\n        weights = weights / ",
)
more(
    "RowsOfNaNChooseAnExpertTooFar",
    "a row of NaN, as padding may have, chooses expert number E, which is not there (SGLang 30079)",
    CHOICE,
    "    lost = router_logits.isnan().all(dim=-1)\n"
    "    ids = torch.where(lost[:, None], router_logits.shape[1], ids)\n" + CHOICE,
)
more(
    "NormOfHeadsByTheFirstStride",
    "heads that are a slice of a fused projection are found by the stride of tokens over the number of heads (vLLM XPU 397)",
    "    return _normalised(x.float(), op.eps).to(x.dtype)\n",
    "    if x.dim() == 3 and not x.is_contiguous() and x.stride(2) == 1 and len(x) > 1:\n"
    "        flat = x.as_strided((x.shape[0] * x.shape[1], x.shape[2]), (x.stride(0) // x.shape[1], 1))\n"
    "        x = flat.reshape(x.shape)\n"
    "    return _normalised(x.float(), op.eps).to(x.dtype)\n",
)
