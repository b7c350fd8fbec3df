"""A process that answers torch's questions as on a machine with one GPU. Nothing is executed."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

__all__ = ["CARDS", "LIBRARIES", "Card", "install", "pretend"]

_GIB = 2**30


@dataclass(frozen=True)
class Card:
    """What torch says of a GPU."""

    name: str
    architecture: str
    capability: tuple[int, int]
    memory: int
    """Bytes."""
    processors: int

    @property
    def platform(self) -> str:
        return "rocm" if self.architecture.startswith("gfx") else "cuda"


CARDS = {
    card.architecture: card
    for card in (
        Card("NVIDIA A100-SXM4-80GB", "sm_80", (8, 0), 80 * _GIB, 108),
        Card("NVIDIA H200", "sm_90", (9, 0), 141 * _GIB, 132),
        Card("NVIDIA B200", "sm_100", (10, 0), 180 * _GIB, 148),
        Card("NVIDIA RTX PRO 6000 Blackwell", "sm_120", (12, 0), 96 * _GIB, 188),
        Card("AMD Instinct MI300X", "gfx942", (9, 4), 192 * _GIB, 304),
        Card("AMD Instinct MI355X", "gfx950", (9, 5), 288 * _GIB, 256),
    )
}
"""By architecture."""

LIBRARIES = ("sgl_kernel", "flashinfer", "aiter", "deep_gemm")
"""The compiled libraries that SGLang imports on these cards."""


def install(libraries: Sequence[str]) -> None:
    """Make these of `LIBRARIES` importable in this process, with every name in them, and hide the others."""
    sys.meta_path.insert(0, _Installed(libraries))
    found = PathFinder.find_spec

    def without(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return None if name.partition(".")[0] in LIBRARIES else found(name, path, target)

    PathFinder.find_spec = staticmethod(without)  # type: ignore[method-assign, assignment]


class _Installed(Loader):
    """Finds and makes libraries that hold every name and compute nothing."""

    def __init__(self, libraries: Sequence[str]) -> None:
        self._libraries = libraries

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        mine = name.partition(".")[0] in self._libraries
        return ModuleSpec(name, self, is_package=True) if mine else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _EveryName(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to execute."""


class _EveryName(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return MagicMock(name=f"{self.__name__}.{name}")


def pretend(card: Card) -> None:
    """Answer as on a machine with `card`, from now on in this process; before SGLang is imported."""
    import torch
    import triton

    hip = card.platform == "rocm"
    torch.version.hip = "7.0.51831" if hip else None
    torch.version.cuda = None if hip else "13.0"
    properties = SimpleNamespace(
        name=card.name,
        major=card.capability[0],
        minor=card.capability[1],
        total_memory=card.memory,
        multi_processor_count=card.processors,
        gcnArchName=f"{card.architecture}:sramecc+:xnack-",
        is_integrated=0,
        warp_size=64 if hip else 32,
    )
    answers = {
        "is_available": True,
        "is_initialized": False,
        "is_bf16_supported": True,
        "device_count": 1,
        "current_device": 0,
        "get_device_capability": card.capability,
        "get_device_properties": properties,
        "get_device_name": card.name,
        "mem_get_info": (card.memory - _GIB, card.memory),
        "_lazy_init": None,
        "set_device": None,
        "synchronize": None,
        "empty_cache": None,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, _always(answer))
    backend = ("hip", card.architecture, 64) if hip else ("cuda", 10 * card.capability[0], 32)
    target = SimpleNamespace(backend=backend[0], arch=backend[1], warp_size=backend[2])
    driver = SimpleNamespace(
        get_current_target=_always(target),
        get_current_device=_always(0),
        get_active_torch_device=_always(torch.device("cpu")),
        get_device_interface=_always(torch.cuda),
    )
    triton.runtime.driver.set_active(driver)
    _answer_by_program(card)


def _answer_by_program(card: Card) -> None:
    """SGLang asks vendors' programs for the memory: put such in front of the PATH of this process."""
    folder = Path(tempfile.mkdtemp(prefix="pretended-card-"))
    kib = card.memory // 1024
    outputs = {
        "nvidia-smi": f"{kib // 1024}",
        "rocminfo": f"  Name: {card.architecture}\n  Pool 1\n    Segment: GLOBAL\n    Size: {kib}(0x0) KB",
    }
    for name, output in outputs.items():
        program = folder / name
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{output}\nEND\n")
        program.chmod(0o755)
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
    atexit.register(shutil.rmtree, folder)


def _always(answer: Any) -> Any:
    return lambda *args, **kwargs: answer
