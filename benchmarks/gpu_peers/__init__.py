"""SGLang's Triton kernels as plain Python, for machines without SGLang: `python benchmarks/gpu_peers FOLDER`.

Its files are copied as they are from the installed SGLang, unmodified, and never into this repository. What they
import of the rest of SGLang is answered by the modules in `stand_ins/`, which ask torch.
"""

from __future__ import annotations

import ast
import importlib.util
import shutil
from importlib.metadata import version
from pathlib import Path

__all__ = ["carried", "pack"]

_FILES = (
    "kernels/ops/attention/decode_attention.py",
    "kernels/ops/attention/extend_attention.py",
    "kernels/ops/attention/score_mod.py",
    "srt/environ.py",
)
_STAND_INS = {"machine.py": "srt/utils.py"}
_MARK = "CARRIED"


def carried() -> str | None:
    """The release whose kernels are imported from a packed folder, None where there is none."""
    spec = importlib.util.find_spec("sglang")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        mark = Path(folder, _MARK)
        if mark.is_file():
            return mark.read_text().strip()
    return None


def pack(folder: Path) -> str:
    """Write `folder/sglang` from the installed SGLang, and say which release it is of.

    Raises ValueError where SGLang is not installed, keeps its kernels elsewhere, or has them import what is not here.
    """
    spec = importlib.util.find_spec("sglang")
    places = [Path(place) for place in (spec.submodule_search_locations or ())] if spec is not None else []
    if not places or not (places[0] / "version.py").exists():
        raise ValueError("SGLang is not installed here: pack where it is")
    host, packed = places[0], folder / "sglang"
    for name in _FILES:
        if not (host / name).is_file():
            raise ValueError(f"SGLang {version('sglang')} has no {name}: see _FILES in gpu_peers/__init__.py")
        _put(host / name, packed / name)
    for name, place in _STAND_INS.items():
        _put(Path(__file__).with_name("stand_ins") / name, packed / place)
    for part in [packed, *(path for path in packed.rglob("*") if path.is_dir())]:
        (part / "__init__.py").touch()
    for name in _FILES:
        _refuse_unknown_imports(packed, packed / name)
    release = version("sglang")
    (packed / _MARK).write_text(release + "\n")
    return release


def _put(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _refuse_unknown_imports(packed: Path, file: Path) -> None:
    """What a file imports of SGLang when it is imported itself must be in the packed folder, each name of it."""
    for node in ast.parse(file.read_text()).body:
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("sglang."):
            continue
        module = packed.parent / f"{str(node.module).replace('.', '/')}.py"
        text = module.read_text() if module.is_file() else ""
        for name in node.names:
            if f"def {name.name}" not in text and f"\n{name.name} = " not in text:
                raise ValueError(
                    f"{file.name} imports {name.name} of {node.module}, which is not carried: add it in "
                    "gpu_peers/stand_ins, or its file in gpu_peers/__init__.py"
                )
