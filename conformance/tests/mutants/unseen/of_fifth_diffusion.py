"""The diffusion runtime, fifth set: attention, and answers of its platform."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broken import Table
from of_fourth_diffusion import ANSWER, GROUPS, START, with_attention
from plugins import HEALTHY, PACKAGE, write_plugin

diffusion = Table("diffusion 5", "packaging contract kernels")

SCORES = "        scores = q.float() @ k.float().transpose(2, 3) * self.softmax_scale\n"
LATER = "            later = torch.ones(rows, columns, dtype=torch.bool).triu(columns - rows + 1)\n"


def with_answers(folder: Path, text: str) -> Any:
    """The healthy plugin whose diffusion platform has methods of its own."""
    files = {
        f"{PACKAGE}/mm.py": (HEALTHY / "diffusion.py").read_text() + text,
        f"{PACKAGE}/mm_attention.py": (HEALTHY / "attention.py").read_text(),
    }
    return write_plugin(folder, entry_points=GROUPS, files=files)


@diffusion.written(
    "CausalFromTheFirstKey",
    "with causal and more keys than queries the mask begins at the first key (torch 108108)",
)
def _(folder: Path) -> Any:
    return with_attention(folder, LATER, LATER.replace("columns - rows + 1", "1"))


@diffusion.written(
    "ScoresOfHalfOverflow",
    "with float16 queries and keys the product is made in float16, and scaled afterwards",
)
def _(folder: Path) -> Any:
    text = (
        "        if q.dtype == torch.float16:\n"
        "            scores = (q @ k.transpose(2, 3)).float() * self.softmax_scale\n"
        "        else:\n"
        "            scores = q.float() @ k.float().transpose(2, 3) * self.softmax_scale\n"
    )
    return with_attention(folder, SCORES, text)


@diffusion.written(
    "VarlenByTheHostsNumbers",
    "packed sequences are told apart where the host gives its own numbers; without these they are one sequence",
)
def _(folder: Path) -> Any:
    text = ANSWER + (
        "\n    def forward_varlen(self, query, key, value, *, cu_seqlens, max_seqlen, cu_seqlens_host=None):\n"
        "        bounds = cu_seqlens_host or (0, len(query))\n"
        "        out = torch.zeros_like(query)\n"
        "        for begin, end in zip(bounds, bounds[1:]):\n"
        "            out[begin:end] = self.forward(*(x[None, begin:end] for x in (query, key, value)), None)[0]\n"
        "        return out\n"
    )
    return with_attention(folder, ANSWER, text)


@diffusion.written(
    "MaskOfTheFirstStep",
    "a causal mask is kept by the number of queries: with another number of keys it is the old one",
)
def _(folder: Path) -> Any:
    text = (
        "            kept = self.__dict__.setdefault('_masks', {})\n"
        "            later = kept.setdefault(\n"
        "                rows, torch.ones(rows, columns, dtype=torch.bool).triu(columns - rows + 1)\n"
        "            )\n"
        "            wide = torch.ones(rows, columns, dtype=torch.bool)\n"
        "            wide[:, : later.shape[1]] = later[:, :columns]\n"
        "            later = wide\n"
    )
    return with_attention(folder, LATER, text)


@diffusion.written("KeysOfTheThirdStep", "from its third call on a layer reads the keys of its second")
def _(folder: Path) -> Any:
    text = START + (
        "        self.calls = getattr(self, 'calls', 0) + 1\n"
        "        if self.calls == 2:\n"
        "            self.kept = k.clone()\n"
        "        if self.calls > 2 and self.kept.shape == k.shape:\n"
        "            k = self.kept\n"
    )
    return with_attention(folder, START, text)


@diffusion.written("VaeIsChangedInPlace", "optimize_vae changes the VAE and answers with nothing")
def _(folder: Path) -> Any:
    return with_answers(folder, "\n    def optimize_vae(self, vae):\n        vae.eval()\n")


@diffusion.written(
    "AnyBackendIsItsOwn",
    "a sparse attention backend that is asked for by name is answered with dense attention",
)
def _(folder: Path) -> Any:
    text = (
        "\n    def get_attn_backend_cls_str(self, selected_backend, head_size, dtype):\n"
        '        return "mutant_platform.mm_attention.Attention"\n'
    )
    return with_answers(folder, text)


@diffusion.written("FreeMemoryInMiB", "get_available_gpu_memory answers in MiB, where the host counts in GiB")
def _(folder: Path) -> Any:
    text = (
        "\n    def get_available_gpu_memory(self, device_id=None, distributed=False, empty_cache=True, cpu_group=None):\n"
        "        return self.get_available_memory()[0] / (1 << 20)\n"
    )
    return with_answers(folder, text)


@diffusion.written(
    "DiffusionBatchByBatch",
    "attention one batch element and head after another, in double precision",
    healthy=True,
)
def _(folder: Path) -> Any:
    text = (
        "        group = self.num_heads // self.num_kv_heads\n"
        "        out = torch.empty(*query.shape[:3], value.shape[3], dtype=torch.float64)\n"
        "        for b in range(query.shape[0]):\n"
        "            for h in range(query.shape[2]):\n"
        "                s = query[b, :, h].double() @ key[b, :, h // group].double().T * self.softmax_scale\n"
        "                if self.causal:\n"
        "                    late = torch.ones(s.shape, dtype=torch.bool).triu(s.shape[1] - s.shape[0] + 1)\n"
        "                    s = s.masked_fill(late, float('-inf'))\n"
        "                out[b, :, h] = s.softmax(-1) @ value[b, :, h // group].double()\n"
        "        return out.to(query.dtype)\n"
    )
    return with_attention(folder, START, text + START)
