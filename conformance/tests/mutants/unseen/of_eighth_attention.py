"""Attention, eighth set: prefills by heads of a latent cache, one new token behind a prefix, sinks beside tiles that a window
empties, positions in half precision. Names in brackets are bugs of other projects that a defect is modelled on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broken import Table
from of_fourth_diffusion import ANSWER, with_attention
from of_sixth_attention import HIDDEN, NEWS

attention = Table("attention 8", "kernels", "attention.py")
diffusion = Table("diffusion 8", "packaging contract kernels")

BENT = "        scores = layer.logit_cap * torch.tanh(scores / layer.logit_cap)\n"
MASK = '    scores = scores.masked_fill(hidden, float("-inf"))\n'
SUMMED = '    return torch.einsum("hij,jhd->ihd", weights, v)\n'
OWN_QUERY = "        query = q.float().reshape(-1, layer.tp_q_head_num, layer.qk_head_dim)\n"
OWN_VALUE = "        value = v.float().reshape(-1, layer.tp_v_head_num, layer.v_head_dim)\n"
OWN_PARTS = "        parts = zip(query.split(news), key.split(news), value.split(news), strict=True)\n"

attention(
    "CapByAQuotient",
    "the soft cap's tanh is a quotient of polynomials, wrong by a fortieth of the cap where scores come near to it "
    "(tt-metal 22807)",
    BENT,
    "        bent = (scores / layer.logit_cap).clamp(-3, 3)\n"
    "        scores = layer.logit_cap * bent * (27 + bent**2) / (27 + 9 * bent**2)\n",
)
attention(
    "PositionsInHalfPrecision",
    "where a window begins is compared in float16: past 2,048 tokens it holds one too many or too few",
    HIDDEN,
    "        hidden = hidden | (other.half() < (position - window).half())\n",
)
attention(
    "ByHeadsInOneRow",
    "in a first prefill of latent attention, by heads, requests see those that stand before them in the batch",
    OWN_PARTS,
    "        parts = [(query, key, value)]\n",
)
attention(
    "ByHeadsValuesOfASlice",
    "in a prefill by heads values that are a slice of one projection with the keys are read as if they lay side by side "
    "(local-inference-lab/vllm 17)",
    OWN_VALUE,
    "        if not v.is_contiguous():\n"
    "            v = v.as_strided(v.shape, v.new_empty(v.shape, device='meta').stride())\n" + OWN_VALUE,
)
attention(
    "ByHeadsMaskOfOne",
    "in a prefill by heads of bfloat16 the mask is added, and is one: what is hidden loses one from its score "
    "(vllm-ascend 2781)",
    OWN_QUERY,
    "        import copy\n\n"
    "        layer = copy.copy(layer)\n"
    "        layer.hides = q.dtype != torch.bfloat16\n" + OWN_QUERY,
    MASK,
    '    if getattr(layer, "hides", True):\n    '
    + MASK
    + "    else:\n        scores = scores - hidden.float()\n",
)
attention(
    "SinkBesideAnEmptyTile",
    "in an extend the tile that adds the sinks, of 32 keys, is the first that any of 64 queries sees: queries whose window "
    "leaves it out are NaN (TensorRT-LLM 19220)",
    SUMMED,
    "    if sinks is not None and m > 1 and window is not None and window >= 0:\n"
    "        first = torch.arange(m) // 64 * 64 + n - m - window\n"
    "        behind = (first.clamp(min=0) // 32 + 1) * 32\n"
    "        empty = position[:, 0] - window >= behind\n"
    '        weights = weights.masked_fill(empty[None, :, None], float("nan"))\n' + SUMMED,
)
attention(
    "AllButTheLastIsCached",
    "an extend by one token of each request, as of prompts that are cached but for their last token, is taken for a decode "
    "with the lengths before it: tokens do not see themselves",
    NEWS,
    NEWS + "        if max(news, default=0) == 1:\n"
    "            lengths = [max(length - 1, 1) for length in lengths]\n",
)


@diffusion.written(
    "QueriesPastTheKeys",
    "in cross-attention with more queries than keys those past the keys' number come out as zeros (vllm-omni 5865)",
)
def _(folder: Path) -> Any:
    text = ANSWER.replace("return", "out =") + "        out[:, k.shape[2] :] = 0\n        return out\n"
    return with_attention(folder, ANSWER, text)
