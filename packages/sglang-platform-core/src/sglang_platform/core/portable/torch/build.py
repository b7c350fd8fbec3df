"""Which torch is installed, read without importing it: a CUDA, a ROCm or a CPU build."""

from __future__ import annotations

import runpy
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

__all__ = ["TorchBuild", "torch_build"]


class TorchBuild(NamedTuple):
    """What `torch.version` says. `cuda` and `hip` are the toolkit versions, None where it was built
    without."""

    version: str
    cuda: str | None
    hip: str | None


def torch_build() -> TorchBuild | None:
    """The installed torch, or None where there is none.

    A probe asks this in every process on every machine, and importing torch takes a second or more, so the
    module `torch.version` is run on its own: it holds constants only.
    """
    loaded = sys.modules.get("torch.version")
    if loaded is not None:
        return _read(vars(loaded))
    spec = find_spec("torch")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(folder, "version.py")
        if path.is_file():
            return _read(runpy.run_path(str(path)))
    return None


def _read(names: dict[str, object]) -> TorchBuild:
    cuda, hip = names.get("cuda"), names.get("hip")
    return TorchBuild(
        str(names.get("__version__", "unknown")),
        None if cuda is None else str(cuda),
        None if hip is None else str(hip),
    )
