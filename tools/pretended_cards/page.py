"""Surveys every pretended card in a process of its own, and writes the page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tools.pretended_cards.card import CARDS
from tools.pretended_cards.survey import LAUNCHES, MODULES, PARTS

__all__ = ["SETUPS", "Setup", "page", "surveyed"]

_ROOT = Path(__file__).parents[2]
_CUDA, _ROCM = ("sgl_kernel", "flashinfer", "deep_gemm"), ("sgl_kernel", "aiter")


@dataclass(frozen=True)
class Setup:
    """A machine: its card, whether our package is installed, the compiled libraries that are."""

    architecture: str
    plugin: bool
    libraries: tuple[str, ...]
    tables: str = ""
    """The folder with the package's tables of decode, its own if empty."""

    @property
    def title(self) -> str:
        return f"{self.architecture} {self.installed}"

    @property
    def installed(self) -> str:
        package = (
            f"with sglang-platform-{CARDS[self.architecture].platform}" if self.plugin else "SGLang alone"
        )
        return f"{package}, {', '.join(self.libraries) or 'no compiled library'}"


SETUPS = (
    *(Setup(architecture, True, ()) for architecture in CARDS),
    Setup("sm_90", True, ("flashinfer",)),
    Setup("sm_90", True, _CUDA),
    Setup("gfx942", True, _ROCM),
    Setup("sm_90", False, ()),
    Setup("gfx942", False, ()),
    Setup("sm_90", False, _CUDA),
    Setup("gfx942", False, _ROCM),
)


Finished = subprocess.CompletedProcess[str]


def _in_a_process(program: Path, *arguments: str, timeout: float, environment: Mapping[str, str]) -> Finished:
    command = [sys.executable, "-W", "ignore", str(program), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout)


def surveyed(setup: Setup, run: Callable[..., Finished] = _in_a_process) -> dict[str, Any]:
    """What SGLang does there, as `survey` answers."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SGLANG_")}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
    words = [setup.architecture, "plugin" if setup.plugin else "alone", *setup.libraries]
    words += [f"tables={setup.tables}"] if setup.tables else []
    done = run(Path(__file__).with_name("survey.py"), *words, timeout=240, environment=environment)
    if done.returncode != 0:
        raise RuntimeError(f"{setup.title}: {done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def page(surveys: Mapping[Setup, Mapping[str, Any]]) -> str:
    """The page, as Markdown. Set-ups in which SGLang does the same share a row, or a column."""
    lines = [
        _INTRODUCTION.format(version=version("sglang")),
        "## Imports, and who serves each part",
        "",
        _PARTS,
        "",
    ]
    heads = ("set-up", f"modules imported of {len(MODULES)}", "ours", "SGLang's")
    served = _alike({setup: (_imported(answer), *_served(answer)) for setup, answer in surveys.items()})
    lines += _table(heads, [(title, *cells) for title, cells in served])
    lines += ["", "## Launch decisions", "", _LAUNCHES, ""]
    decided = _alike(
        {
            setup: tuple(_decision(answer["launches"][name]) for name in LAUNCHES)
            for setup, answer in surveys.items()
            if not any(answer["imports"].values())
        }
    )
    letters = [chr(ord("A") + number) for number in range(len(decided))]
    lines += [*(f"- {letter}: {title}" for letter, (title, _) in zip(letters, decided, strict=True)), ""]
    launches = zip(LAUNCHES, *(cells for _, cells in decided), strict=True)
    lines += _table(
        ("launch", *letters),
        [(f"`{name}`" if name else "no argument", *cells) for name, *cells in launches],
    )
    return "\n".join(lines) + "\n"


def _alike(cells: Mapping[Setup, tuple[str, ...]]) -> list[tuple[str, tuple[str, ...]]]:
    """Each different tuple of cells once, with its set-ups: cards with the same installation together."""
    found: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for setup, its in cells.items():
        found.setdefault(its, {}).setdefault(setup.installed, []).append(setup.architecture)
    return [
        ("; ".join(f"{', '.join(cards)} {installed}" for installed, cards in titles.items()), its)
        for its, titles in found.items()
    ]


def _served(answer: Mapping[str, Any]) -> tuple[str, str]:
    """The parts that are ours, and those that are SGLang's."""
    ours = [part for part in PARTS if answer["parts"].get(part) == "ours"]
    return tuple(  # type: ignore[return-value]
        ", ".join(f"`{part}`" for part in PARTS if (part in ours) is own) or "none" for own in (True, False)
    )


def _imported(answer: Mapping[str, Any]) -> str:
    failed = [why for why in answer["imports"].values() if why]
    return f"{len(MODULES) - len(failed)}" + (f" ({failed[0]})" if failed else "")


def _decision(launch: Mapping[str, Any]) -> str:
    if "refused" in launch:
        return (
            "refused: " + launch["refused"].splitlines()[0].split(" is not served: ")[-1].split(" is not")[0]
        )
    if "failed" in launch:
        return "SGLang refuses"
    decode = launch["decode_attention_backend"]
    attention = launch["attention_backend"] + (f" ({decode} in decode)" if decode else "")
    return f"{attention}, {launch['sampling_backend']}, {launch['page_size']}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows)]


_INTRODUCTION = """# Pretended cards

Generated by `python -m tools.pretended_cards --output docs/pretended_cards.md`; do not edit.

A process in which torch answers as on a machine with the card: `torch.cuda`, `torch.version`, Triton's target,
`nvidia-smi` and `rocminfo`. SGLang {version} is real: its imports, its resolution of the server arguments, the hooks of
our packages. No kernel is executed, so this page says nothing of results or speed. A library that a set-up has is one
of modules that hold every name and compute nothing.

Without `sgl_kernel` SGLang alone does not import on these cards. With `sglang-platform-cuda` or `sglang-platform-rocm`
it does. What models need of the library is then served by the package's fused ops (norms, activation, rotary
embedding), and by torch in their place elsewhere: Gemma's norms, GELU, sums over experts, joined attention states,
products of int8 (w8a8), top-k and top-p of drafts, masks of grammars. Attention is SGLang's in Triton, sampling its own
in torch.

Not seen here: SGLang compiles some kernels in C++ at first use (`sglang.kernels.jit`: activation and routing of experts
on CUDA, trees of drafts). These need CUDA's compiler, `nvcc`, beside the light installation.
"""
_PARTS = """`kv_pool` is that of a cache of the model's type. With a cache of 8-bit floats it is ours on every card:
[whose parts serve](parts.md). SGLang alone stops at its first import of a library that is missing."""
_LAUNCHES = """The model is a Llama of two layers. A cell holds the attention backend, the sampling backend and the page
size that SGLang settled on; or the library for want of which our packages refuse the launch, before a worker starts and
with the argument's name; or that SGLang itself refuses it."""
