"""The diffusion runtime, tenth set: cross attention that is padded, heads that are shared, types, approximate scores.
Names in brackets are bugs of other projects that a defect is modelled on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broken import Table
from of_fifth_diffusion import SCORES
from of_fourth_diffusion import START, with_attention
from of_sixth_diffusion import GROUPED

diffusion = Table("diffusion 10", "packaging contract kernels")


@diffusion.written(
    "PromptsAsLongAsTheirPicture",
    "keys of a prompt are filled up to as many as there are queries, and the filling is masked: a video's 76,500 "
    "tokens meet 76,500 keys where 512 would do, in time and memory (vllm-omni 3525)",
)
def _(folder: Path) -> Any:
    text = (
        "        short = 0 if self.causal else max(q.shape[2] - k.shape[2], 0)\n"
        "        k, v = (torch.nn.functional.pad(x, (0, 0, 0, short)) for x in (k, v))\n"
        + SCORES
        + "        scores[..., scores.shape[3] - short :] = float('-inf')\n"
    )
    return with_attention(folder, SCORES, text)


@diffusion.written(
    "SharedKeyHeadsAreAnError",
    "the kernel takes as many heads of keys as of queries: a model that shares them is an error (SGLang 16335)",
)
def _(folder: Path) -> Any:
    return with_attention(
        folder, GROUPED, "        assert group == 1, f'{self.num_heads} != {self.num_kv_heads}'\n"
    )


@diffusion.written(
    "FloatIsRefused",
    "one kernel, for 16 bits, is answered for every type: a decoder or a text encoder in float32 is an error "
    "(vllm-omni 7354)",
)
def _(folder: Path) -> Any:
    text = (
        "        if query.dtype not in (torch.float16, torch.bfloat16):\n"
        "            raise RuntimeError('attention takes float16 and bfloat16 only')\n"
    )
    return with_attention(folder, START, text + START)


@diffusion.written(
    "ScoresInEightBits",
    "queries and keys are rounded to int8 with a scale per token, under the name of exact attention: fine textures "
    "differ, and nobody asked for that (SageAttention)",
)
def _(folder: Path) -> Any:
    text = (
        "        scales = [x.float().abs().amax(-1, keepdim=True).clamp(min=1e-8) / 127 for x in (q, k)]\n"
        "        q, k = (torch.round(x.float() / scale) * scale for x, scale in zip((q, k), scales))\n"
    )
    return with_attention(folder, SCORES, text + SCORES)
