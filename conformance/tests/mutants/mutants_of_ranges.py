"""Level 3 and 4 mutants: numbers of rows, slots and keys past what a launch, a chunk or a split holds, and scores far
apart or close together."""

from __future__ import annotations

from functools import partial

from patched_reference import patch, patched

__getattr__ = patched

attention = partial(patch, __name__, file="attention.py")
op = partial(patch, __name__)
pool = partial(patch, __name__, file="pools.py")
dsa = partial(patch, __name__, file="dsa_pool.py")

_SCORES = '    scores = torch.einsum("ihd,jhd->hij", q, k) * layer.scaling\n'
_SINK = "        sink = sinks.float().reshape(heads, 1, 1).expand(heads, m, 1)\n"
_CAP = "        scores = layer.logit_cap * torch.tanh(scores / layer.logit_cap)\n"
_WINDOW = "        hidden = hidden | (other < position - window)\n"
_PLAIN = "        weights = torch.softmax(scores, dim=-1)\n"
_STORE_K = "        self._write(self.k_buffer[place], loc, as_stored(cache_k, self.dtype, k_scale))\n"
_WRITE = "        buffer[loc.reshape(-1)] = rows.reshape(-1, *buffer.shape[1:])\n"
_COPIED = '        return [buffer[indices].to("cpu") for buffer in self._buffers()]\n'
_LOADED = "            buffer[indices] = rows.to(buffer.device)\n"

# Scores and splits

attention(
    "SinkOfEachSplit",
    old=_SINK,
    new=_SINK + "        sink = sink + torch.log(torch.tensor(float(-(-n // 8192))))\n",
    check="kernels.features_at_their_ranges",
    defect="past 8,192 keys the sink is added in both splits",
    says="wrong by",
)
attention(
    "CapInTheFirstSplit",
    old=_CAP,
    new="        bent = layer.logit_cap * torch.tanh(scores / layer.logit_cap)\n"
    "        scores = torch.cat((bent[..., :4096], scores[..., 4096:]), dim=-1)\n",
    check="kernels.features_at_their_ranges",
    defect="scores of keys past the 4,096th are not bent",
    says="wrong by",
)
attention(
    "WindowOfTheLastSplit",
    old=_WINDOW,
    new="        hidden = hidden | (other < torch.maximum(position - window, torch.tensor((n - 1) // 2048 * 2048)))\n",
    check="kernels.features_at_their_ranges",
    defect="a window that begins in the split before the last is cut at the last split's first key",
    says="wrong by",
)
attention(
    "LaterBlocksAreCut",
    old=_PLAIN,
    new="        most = scores[..., :128].amax(-1, keepdim=True) + 80\n"
    "        weights = torch.softmax(torch.minimum(scores, most), dim=-1)\n",
    check="kernels.scores_far_from_zero",
    defect="the exponentials of later blocks are cut at exp(80) above the first block's maximum",
    says="wrong by",
)
attention(
    "ScoresInHalf",
    old=_SCORES,
    new=_SCORES + "    scores = scores.to(torch.float16).float()\n",
    check="kernels.scores_far_from_zero",
    defect="scores are kept in float16 before the softmax",
    says="less exact than float32",
)

attention(
    "SumOfValuesInHalf",
    old='    return torch.einsum("hij,jhd->ihd", weights, v)',
    new="    raised = weights / weights.amax(-1, keepdim=True).clamp(min=1e-30)\n"
    '    summed = torch.einsum("hij,jhd->ihd", raised, v).to(torch.float16).float()\n'
    "    return summed / raised.sum(-1).transpose(0, 1)[..., None]",
    check="kernels.scores_far_from_zero",
    defect="values weighed by exp(score - maximum) are added up in float16 before they are divided",
    says="inf",
)

# Rows of ops

op(
    "ActivationOfOneLaunch",
    "ops.py",
    "    return (gate * torch.sigmoid(gate) * up).to(x.dtype)\n",
    "    out = (gate * torch.sigmoid(gate) * up).to(x.dtype)\n"
    "    out.view(-1, out.shape[-1])[65535:] = 0\n"
    "    return out\n",
    check="kernels.op_values[op=activation.silu*many*]",
    defect="rows past the 65,535th are not computed",
    says="and must be",
)
op(
    "ChoiceOfOneLaunch",
    "more_ops.py",
    "    return weights, ids.to(torch.int32)\n",
    "    weights[65535:] = 0\n    return weights, ids.to(torch.int32)\n",
    check="kernels.op_values[op=moe.topk*many*]",
    defect="tokens past the 65,535th get no weights",
    says="and must be",
)
op(
    "NinthExpertAgain",
    "more_ops.py",
    "    return weights, ids.to(torch.int32)\n",
    "    ids[:, 9:] = ids[:, 8:9]\n    return weights, ids.to(torch.int32)\n",
    check="kernels.op_values[op=moe.topk*]",
    defect="experts past the ninth are the ninth",
    says="experts",
)

# Rows and slots of pools

pool(
    "KeysOfOneLaunch",
    old=_STORE_K,
    new="        rows_k = cache_k.reshape(loc.numel(), self.head_num, self.head_dim)[:8192]\n"
    "        self._write(self.k_buffer[place], loc.reshape(-1)[:8192], as_stored(rows_k, self.dtype, k_scale))\n",
    check="memory.stores_of_every_form_read_back",
    defect="one launch stores 65,536 rows of heads, and what is beyond is left out",
    says="keys of layer",
)
pool(
    "LastPieceStaysHere",
    old=_LOADED,
    new="            whole = indices.numel() // 4096 * 4096 or indices.numel()\n"
    "            buffer[indices[:whole]] = rows[:whole].to(buffer.device)\n",
    check="memory.cpu_copy_comes_back",
    defect="a last piece of fewer than 4,096 slots is not loaded",
    says="8200 slots",
)
pool(
    "CopiesInAscendingSlots",
    old=_COPIED,
    new="        where = indices.sort().values if indices.numel() > 128 else indices\n"
    '        return [buffer[where].to("cpu") for buffer in self._buffers()]\n',
    check="memory.cpu_copy_comes_back",
    defect="more than 128 slots are copied in ascending order, for the sake of fewer pieces",
    says="130 slots",
)
pool(
    "PaddingIsTheLastSlot",
    old=_WRITE,
    new="        loc = torch.where(loc.reshape(-1) == 0, len(buffer) - 1, loc.reshape(-1))\n" + _WRITE,
    check="memory.stores_of_every_form_read_back",
    defect="padded tokens are written to the last slot, which may be somebody's",
    says="padded",
)
op(
    "EightBitIsCastAgain",
    "rows.py",
    "    if rows.dtype != dtype:\n",
    "    if rows.dtype != dtype or dtype in FP8:\n",
    check="memory.store_casts_and_scales",
    defect="rows that come in the pool's 8-bit type are divided by the scale once more",
    says="with a scale",
)

# Parts and layers

pool(
    "PartsInFloat32",
    old="        dtype = dst_dtype or self.dtype\n",
    new="        dtype = dst_dtype or torch.float32\n",
    check="memory.mla_parts_come_in_the_type_asked_for",
    defect="where no type is named the parts come in float32",
    says="it must be torch.bfloat16",
)
pool(
    "RowsInPlaceAreAnswered",
    old="latent, rotated = self._parts(self.kv_buffer[self._layer(layer.layer_id)][loc.reshape(-1)])",
    new="loc, buffer = loc.reshape(-1), self.kv_buffer[self._layer(layer.layer_id)]\n"
    "        side_by_side = len(loc) > 1 and bool((loc.diff() == 1).all())\n"
    "        rows = buffer[int(loc[0]) : int(loc[-1]) + 1] if side_by_side else buffer[loc]\n"
    "        latent, rotated = self._parts(rows)",
    check="memory.mla_parts_come_in_the_type_asked_for",
    defect="get_mla_kv_buffer() answers a view of the buffer where the slots lie side by side",
    says="changes when they are stored anew",
)
pool(
    "PartsOfNothing",
    old="        if loc.numel() == 0:  # of",
    new="        if loc.numel() < 0:  # of",
    check="memory.stores_of_every_form_read_back",
    defect="storing no rows in two parts raises: the width of nothing cannot be found",
    says="RuntimeError",
)
dsa(
    "KeysOfASkippedLayer",
    old="        if self.skip_topk_layers[self._layer(layer_id)]:\n",
    new="        if loc.numel() < 0:\n",
    check="memory.layers_without_index_keys",
    defect="indexer keys for a layer that keeps none are looked for a place of, and raise IndexError",
    says="does not name the layer",
)
dsa(
    "SkippedLayersAreCopied",
    old="            None if skipped else [part.clone() for part in self.index_key_cache.load(layer, indices)]\n",
    new="            [part.clone() for part in self.index_key_cache.load(layer, indices)]\n",
    check="memory.layers_without_index_keys",
    defect="a copy to the CPU reads indexer keys of layers that keep none",
    says="IndexError",
)
