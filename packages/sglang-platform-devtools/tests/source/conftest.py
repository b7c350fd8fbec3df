"""Plugins made of files, each in a package of its own name."""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # awkward_forms, which several files read

_NUMBER = itertools.count()

Write = Callable[[str, Mapping[str, str]], str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """`write(source, others)` makes a package with the module `mod` of this source, and gives the package's name."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    made: list[str] = []

    def make(source: str, others: Mapping[str, str]) -> str:
        package = f"vendor_{next(_NUMBER)}"
        made.append(package)
        has_children = any(name.startswith("mod/") for name in others)
        files = {"__init__": "", "mod/__init__" if has_children else "mod": source, **others}
        for name, text in files.items():
            path = tmp_path / package / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        importlib.invalidate_caches()
        return package

    yield make
    for name in [name for name in sys.modules if name.partition(".")[0] in made]:
        del sys.modules[name]
