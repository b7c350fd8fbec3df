"""The diffusion runtime, sixth set: scale, groups of heads, blocks of keys, sequences of no rows. Names in brackets are
bugs of other projects that a defect is modelled on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broken import Table
from of_fifth_diffusion import SCORES
from of_fourth_diffusion import ANSWER, START, with_attention

diffusion = Table("diffusion 6", "packaging contract kernels")

GROUPED = "        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)\n"


@diffusion.written(
    "ScaleOfAPaddedWidth",
    "scores are scaled by the head's width in whole blocks of 64, whatever the layer says (bytedance-iaas/sglang 485)",
)
def _(folder: Path) -> Any:
    new = SCORES.replace("self.softmax_scale", "(-(-self.head_size // 64) * 64) ** -0.5")
    return with_attention(folder, SCORES, new)


@diffusion.written("GroupsInTurn", "where query heads share a key head, they take the key heads in turn")
def _(folder: Path) -> Any:
    return with_attention(
        folder, GROUPED, "        k, v = k.repeat(1, group, 1, 1), v.repeat(1, group, 1, 1)\n"
    )


@diffusion.written(
    "KeysInWholeBlocks",
    "keys of more than 64 tokens are filled up with zeros to whole blocks of 64, and the zeros weigh",
)
def _(folder: Path) -> Any:
    text = (
        "        if k.shape[2] > 64 and not self.causal:\n"
        "            fill = (0, 0, 0, -k.shape[2] % 64)\n"
        "            k, v = torch.nn.functional.pad(k, fill), torch.nn.functional.pad(v, fill)\n"
    )
    return with_attention(folder, START, START + text)


@diffusion.written(
    "NoRowsEndTheBatch", "of packed sequences, those behind one without rows come out as zeros"
)
def _(folder: Path) -> Any:
    text = ANSWER + (
        "\n    def forward_varlen(self, query, key, value, *, cu_seqlens, max_seqlen, cu_seqlens_host=None):\n"
        "        out, bounds = torch.zeros_like(query), cu_seqlens.tolist()\n"
        "        for begin, end in zip(bounds, bounds[1:]):\n"
        "            if begin == end:\n"
        "                break\n"
        "            one = slice(begin, end)\n"
        "            out[one] = self.forward(query[None, one], key[None, one], value[None, one], None)[0]\n"
        "        return out\n"
    )
    return with_attention(folder, ANSWER, text)
