"""SGLang on its own in-tree CPU device, in the same environment: what passes there passes on a platform.

How each test of a release ended there is recorded in `in_tree/`, written by `python -m ...kits.record`. A release
without a record is measured when it is first asked for.

SGLang's CPU device imports a package of kernels that is not on PyPI for it. With
its own torch attention none of them is called, so a stand-in whose kernels raise is enough.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from sglang_platform.conformance.kits.verdict import KitTest

__all__ = ["OPTIONS", "ended", "environment", "patience", "record_of", "recorded", "written"]

OPTIONS: dict[str, Any] = {
    "device": "cpu",
    "attention_backend": "torch_native",
    "disable_cuda_graph": True,
    "page_size": 1,
}
"""Of the command line, beside those of the kits' server."""

_KERNELS = '''"""Kernels that are imported and never called here."""


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)

    def kernel(*args, **kwargs):
        raise NotImplementedError(f"sgl_kernel.{name} is not here")

    return kernel
'''


def environment(folder: Path) -> dict[str, str]:
    """Variables under which SGLang sees no platform plugin, and the stand-in that is written into `folder`."""
    package = folder / "sgl_kernel"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text(_KERNELS)
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    return {
        "PYTHONPATH": path,
        "SGLANG_USE_CPU_ENGINE": "1",
        "SGLANG_PLUGINS": "none",
        "SGLANG_PLATFORM": "",
    }


def record_of(release: str) -> Path:
    """The file in which a release's tests on SGLang's own device are kept."""
    return Path(__file__).parent / "in_tree" / f"sglang-{release}.json"


def patience() -> int:
    """How many times its time a check may take: three where SGLang's own device is measured within it."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return 1 if record_of(importlib.metadata.version("sglang")).exists() else 3
    return 1


def ended(part: str, measure: Callable[[], Iterable[KitTest]]) -> list[KitTest]:
    """How the tests of a part (`attention`, `server`) ended there: as recorded of this release, or measured now."""
    path = record_of(importlib.metadata.version("sglang"))
    if not path.exists():
        return list(measure())
    return [KitTest(*row) for row in json.loads(path.read_text())[part]]


def recorded(release: str) -> dict[tuple[str, str], tuple[str, str]]:
    """Outcome and words by kit and test, of the record of a release; empty where there is none."""
    path = record_of(release)
    if not path.exists():
        return {}
    return {
        (row[0], row[1]): (row[2], row[3]) for rows in json.loads(path.read_text()).values() for row in rows
    }


def written(parts: dict[str, Sequence[KitTest]], path: Path) -> None:
    """Write a record: a test a line, without its time."""
    rows = {
        part: [json.dumps([one.kit, one.test, one.outcome, one.words]) for one in tests]
        for part, tests in parts.items()
    }
    text = ",\n".join(f'"{part}": [\n' + ",\n".join(lines) + "\n]" for part, lines in rows.items())
    path.parent.mkdir(exist_ok=True)
    path.write_text("{\n" + text + "\n}\n")
