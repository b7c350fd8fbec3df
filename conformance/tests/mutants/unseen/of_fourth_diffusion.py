"""Attention of the diffusion runtime, in a distribution for both runtimes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broken import Table
from plugins import HEALTHY, NAME, PACKAGE, write_plugin

diffusion = Table("diffusion 4", "packaging contract kernels")

GROUPS = (
    f"[sglang.srt.platforms]\n{NAME} = {PACKAGE}:activate\n"
    f"[sglang.multimodal_gen.platforms]\n{NAME} = {PACKAGE}.mm:activate\n"
)
ATTENTION = (HEALTHY / "attention.py").read_text()
START = "        q, k, v = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)\n"
ANSWER = "        return (scores.softmax(-1) @ v.float()).transpose(1, 2).to(query.dtype)\n"


def with_attention(folder: Path, old: str, new: str) -> Any:
    """The healthy plugin whose attention has `new` for `old`."""
    assert ATTENTION.count(old) == 1
    files = {
        f"{PACKAGE}/mm.py": (HEALTHY / "diffusion.py").read_text(),
        f"{PACKAGE}/mm_attention.py": ATTENTION.replace(old, new),
    }
    return write_plugin(folder, entry_points=GROUPS, files=files)


@diffusion.written("DiffusionIsHealthy", "attention of the diffusion runtime in plain torch", healthy=True)
def _(folder: Path) -> Any:
    return with_attention(folder, ANSWER, ANSWER)


@diffusion.written(
    "GuidanceHalfIsTheFirst", "of a batch of two, as guidance has it, the second is the first's"
)
def _(folder: Path) -> Any:
    text = START + "        k, v = k[:1].expand_as(k), v[:1].expand_as(v)\n"
    return with_attention(folder, START, text)


@diffusion.written(
    "TextKeysOfTheFirstPrompt", "keys of a prompt are kept per layer: the next prompt has them too"
)
def _(folder: Path) -> Any:
    text = (
        START + "        if k.shape[2] != q.shape[2]:\n"
        "            kept = self.__dict__.setdefault('_text', {})\n"
        "            k, v = kept.setdefault(k.shape, (k.clone(), v.clone()))\n"
    )
    return with_attention(folder, START, text)


@diffusion.written("KeysPast4096", "of a picture's tokens the keys past the 4,096th are not read")
def _(folder: Path) -> Any:
    return with_attention(folder, START, START + "        k, v = k[:, :, :4096], v[:, :, :4096]\n")


@diffusion.written(
    "VarlenIsPadded", "packed sequences are padded to the longest, and the padding is attended to"
)
def _(folder: Path) -> Any:
    text = ANSWER + (
        "\n    def forward_varlen(self, query, key, value, *, cu_seqlens, max_seqlen, cu_seqlens_host=None):\n"
        "        out = torch.zeros_like(query)\n"
        "        for begin, end in zip(cu_seqlens.tolist(), cu_seqlens.tolist()[1:]):\n"
        "            pad = (0, 0, 0, 0, 0, max_seqlen - (end - begin))\n"
        "            q, k, v = (torch.nn.functional.pad(x[begin:end], pad)[None] for x in (query, key, value))\n"
        "            out[begin:end] = self.forward(q, k, v, None)[0, : end - begin]\n"
        "        return out\n"
    )
    return with_attention(folder, ANSWER, text)


@diffusion.written(
    "MemoryOrderOfQueries", "queries that are a slice of a fused qkv are read as if they lay side by side"
)
def _(folder: Path) -> Any:
    text = (
        "        if not query.is_contiguous() and query.shape[0] == 1:\n"
        "            s, h, d = query.shape[1:]\n"
        "            query = query.as_strided(query.shape, (s * h * d, h * d, d, 1))\n"
    )
    return with_attention(folder, START, text + START)
