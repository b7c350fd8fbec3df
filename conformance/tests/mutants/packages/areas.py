"""What is mutated, and who judges it.

An area is a part of the packages. Its judges are named `check:ID` (a check on the example device), `kernels:NAME`
(a declared kernel in Triton's interpreter) and `test:FILE` (the package's own tests, for what no check without an
engine can reach: parts that only an engine of SGLang calls).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["AREAS", "KERNELS_OF", "LEVELS", "PLATFORM", "ROOT", "Area", "module_of"]

ROOT = Path(__file__).parents[4]
_CORE, _EXAMPLE = "packages/sglang-platform-core", "packages/sglang-platform-example-oot"
_CUDA, _ROCM = "packages/sglang-platform-cuda", "packages/sglang-platform-rocm"
_IN_CORE, _IN_EXAMPLE = (
    f"{_CORE}/src/sglang_platform/core",
    f"{_EXAMPLE}/src/sglang_platform/example_oot",
)

PLATFORM = "example_oot"

KERNELS_OF = {
    "decode": "attention.py",
    "extend": "attention.py",
    "store_kv": "kv_pools.py",
    "norm": "ops.py",
    "activation": "ops.py",
    "rotary": "ops.py",
    "moe": "ops.py",
}
"""C++ files, and the Python that calls each: of that it is known which checks run it."""

LEVELS = ("contract", "memory", "kernels", "graphs", "distributed")
"""Whose checks judge Python and C++ of the device; the others look at the package from without."""


@dataclass(frozen=True)
class Area:
    """`share`: of a sample, beside the other areas."""

    name: str
    globs: tuple[str, ...]
    judges: tuple[str, ...]
    share: int
    without: tuple[str, ...] = ()
    """Files that find others by where they lie themselves, and so cannot be loaded from elsewhere."""

    def files(self) -> Iterator[Path]:
        for glob in self.globs:
            for path in sorted(ROOT.glob(glob)):
                if path.name not in ("__init__.py", *self.without):
                    yield path


AREAS = (
    Area(
        "core, portable parts",
        (f"{_IN_CORE}/portable/torch/*.py", f"{_IN_CORE}/portable/torch/speculative/*.py"),
        ("check", f"test:{_CORE}/tests/portable/test_*.py"),
        4,
    ),
    Area("core, memory", (f"{_IN_CORE}/memory/*.py",), ("check", f"test:{_CORE}/tests/memory/test_*.py"), 5),
    Area("core, graphs", (f"{_IN_CORE}/graph/*.py",), ("check", f"test:{_CORE}/tests/graph/test_*.py"), 3),
    Area(
        "core, distributed",
        (f"{_IN_CORE}/distributed/*.py",),
        ("check", f"test:{_CORE}/tests/distributed/test_*.py"),
        3,
    ),
    Area(
        "example, Python",
        (f"{_IN_EXAMPLE}/*.py", f"{_IN_EXAMPLE}/kernels/*.py", f"{_IN_EXAMPLE}/torch_device/*.py"),
        ("check", f"test:{_EXAMPLE}/tests/kernels/test_*.py", f"test:{_EXAMPLE}/tests/parts/test_*.py"),
        5,
        ("native.py",),
    ),
    Area(
        "example, C++ kernels",
        tuple(f"{_IN_EXAMPLE}/csrc/{name}.cpp" for name in KERNELS_OF),
        ("check",),
        3,
    ),
    Area(
        "shared GPU kernels",
        (f"{_IN_CORE}/portable/triton/kernels/*.py",),
        ("kernels:cuda", "kernels:rocm"),
        3,
    ),
    Area("CUDA kernels", (f"{_CUDA}/src/sglang_platform/cuda/kernels/*.py",), ("kernels:cuda",), 3),
    Area("ROCm kernels", (f"{_ROCM}/src/sglang_platform/rocm/kernels/*.py",), ("kernels:rocm",), 3),
)


def module_of(path: Path) -> str:
    """The import name of a file below `src`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[parts.index("src") + 1 :])
