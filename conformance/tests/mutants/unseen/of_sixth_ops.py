"""Fused ops and experts, sixth set: odd numbers of tokens, ties, tokens of NaN, slices, partial rotation. Names in
brackets are bugs of other projects that a defect is modelled on."""

from __future__ import annotations

from broken import Table

ops = Table("ops 6", "kernels", "ops.py")
more = Table("ops 6", "kernels", "more_ops.py")

TURN = "    a, b = a * cos - b * sin, b * cos + a * sin\n"
SUMS = "    out = torch.zeros(hidden_states.shape, dtype=torch.float32)\n"
EXPERTS = "    return out.to(hidden_states.dtype)\n"
OTHER_RANKS = "            if expert < 0:  # another rank's\n"
AXES = "        table = torch.gather(table, 0, chosen.expand(1, table.shape[1], -1))[0]\n"
ROUTER = "    weights, ids = torch.softmax(router_logits.float(), dim=-1).topk(config.top_k)\n"

ops(
    "PairsByFour",
    "pairs are turned four at a time: of 10 pairs, as Phi-2's heads have them, two are left (Liger-Kernel 1451)",
    TURN,
    "    whole = a.shape[-1] // 4 * 4 or a.shape[-1]\n"
    "    cos, sin = cos.clone(), sin.clone()\n"
    "    cos[..., whole:], sin[..., whole:] = 1, 0\n" + TURN,
)
ops(
    "PartialPairsAcrossTheHead",
    "where part of a head turns, a number is paired with the one half a head on (coreai-models 66)",
    TURN,
    "    if op.is_neox_style and op.rotary_dim < op.head_size:\n"
    "        half, on = op.rotary_dim // 2, op.head_size // 2\n"
    "        a, b = heads[..., :half].clone(), heads[..., on : on + half].clone()\n"
    "        heads[..., :half], heads[..., on : on + half] = a * cos - b * sin, b * cos + a * sin\n"
    "        return heads.reshape(x.shape).to(x.dtype)\n" + TURN,
)
ops(
    "RotaryTakesNoOffsets",
    "the rotation takes three arguments: a call with offsets, or with a place for keys, is an error (vllm-ascend 3521)",
    "    offsets: torch.Tensor | None = None,\n"
    "    fused_set_kv_buffer_arg: Any = None,\n"
    ") -> Any:\n"
    "    if fused_set_kv_buffer_arg is not None:\n"
    "        return NotImplemented\n"
    "    positions = positions.flatten() if offsets is None else (positions + offsets).flatten()\n",
    ") -> Any:\n    positions = positions.flatten()\n",
)
ops(
    "LastOfOddTokens",
    "tokens of 16 bits go through the experts in pairs: the last of an odd number comes out as zero (tt-metal 50669)",
    EXPERTS,
    "    if len(out) > 1 and len(out) % 2 and hidden_states.element_size() == 2:\n"
    "        out[-1] = 0\n" + EXPERTS,
)
ops(
    "RoutesOfASlice",
    "experts that are a slice of wider rows, as behind a shared one, are read as if they lay side by side",
    SUMS,
    "    if not topk_ids.is_contiguous():\n"
    "        topk_ids = topk_ids.as_strided(topk_ids.shape, (topk_ids.shape[1], 1))\n" + SUMS,
)
ops(
    "TokenOfNaNSpoilsTheBatch",
    "tokens are dealt to experts by a product with zeros and ones: one of NaN, as padding may be, spoils all "
    "(vLLM 41249)",
    SUMS,
    SUMS + "    dtype = hidden_states.dtype\n"
    "    hidden_states = torch.eye(len(hidden_states)) @ hidden_states.float()\n",
    EXPERTS,
    "    return out.to(dtype)\n",
)
ops(
    "ExpertOfAllTokens",
    "an expert that all of four tokens or more have chosen computes the first of them only (vllm-xpu-kernels 453)",
    SUMS,
    SUMS + "    rows = [set(row) for row in topk_ids.tolist()]\n"
    "    common = set.intersection(*rows) if len(rows) >= 4 else set()\n",
    OTHER_RANKS,
    "            if token and expert in common:\n                continue\n" + OTHER_RANKS,
)
more(
    "AxesAreCountedAsTokens",
    "positions of three axes are counted as three times the tokens, and written over (sgl-kernel-xpu 202)",
    AXES,
    AXES + "        positions[1:] = 0\n",
)
more(
    "RouterIsPaddedWithZeros",
    "a router of experts that are no multiple of 16 is padded with scores of zero, which are chosen "
    "(tpu-inference 1252)",
    ROUTER,
    "    padded = torch.nn.functional.pad(router_logits.float(), (0, -router_logits.shape[-1] % 16))\n"
    "    weights, ids = torch.softmax(padded, dim=-1).topk(config.top_k)\n",
)
more(
    "TiesAreCrossedOutTogether",
    "the chosen score is crossed out by its value: of experts with the same score one is chosen",
    ROUTER,
    "    scores = torch.softmax(router_logits.float(), dim=-1)\n"
    "    left, chosen = scores.clone(), []\n"
    "    for _ in range(config.top_k):\n"
    "        best = left.max(dim=-1)\n"
    "        chosen.append(best.indices)\n"
    "        left[left == best.values[:, None]] = -1.0\n"
    "    ids = torch.stack(chosen, dim=-1)\n"
    "    weights = scores.gather(-1, ids)\n",
)
more(
    "TiesByASmallNumber",
    "ties are broken by 3e-7 for each expert before it, which changes the order of near scores too (SGLang 31768)",
    ROUTER,
    "    scores = torch.softmax(router_logits.float(), dim=-1)\n"
    "    ids = (scores - torch.arange(scores.shape[-1]) * 3e-7).topk(config.top_k).indices\n"
    "    weights = scores.gather(-1, ids)\n",
)
