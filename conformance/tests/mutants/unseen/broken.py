"""Platforms that were broken by somebody who had not read the suite's checks, and unusual healthy ones.

A table of one dimension says where its defects are and which level must see them; a row is one platform:

    attention = Table("attention", "kernels", "attention.py")
    attention("HeadsPast64", "of more than 64 query heads only 64 are computed", OLD, NEW, OLD, NEW)

The unchanged source must hold each old text exactly once. `FILE: TEXT` before a pair names another file of the
reference, as `at("pools.py", OLD, NEW)`; `end(FILE, TEXT)` adds text at the end of a file.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

TABLES = tuple(sorted(path.stem for path in HERE.glob("of_*.py")))


@dataclass(frozen=True)
class Edit:
    """In `file` of the reference `old` becomes `new`; without `old`, `new` stands at the end."""

    file: str
    old: str
    new: str


def at(file: str, old: str, new: str) -> Edit:
    return Edit(file, old, new)


def end(file: str, new: str) -> Edit:
    return Edit(file, "", new)


@dataclass(frozen=True)
class Broken:
    """One platform. `healthy`: nothing may fail on it."""

    name: str
    table: str
    dimension: str
    levels: tuple[str, ...]
    defect: str
    edits: tuple[Edit, ...]
    write: Callable[[Path], Any] | None
    healthy: bool

    def texts(self) -> dict[str, str]:
        """The changed files of the reference."""
        import sglang_platform.conformance.reference as reference

        source = Path(reference.__file__).parent
        texts: dict[str, str] = {}
        for edit in self.edits:
            text = texts.get(edit.file) or (source / edit.file).read_text()
            if edit.old and text.count(edit.old) != 1:
                raise ValueError(f"{self.name}: {edit.file} has {text.count(edit.old)} times: {edit.old}")
            texts[edit.file] = text.replace(edit.old, edit.new) if edit.old else f"{text}\n{edit.new}\n"
            compile(texts[edit.file], f"{edit.file} of {self.name}", "exec")
        return texts


ALL: dict[str, Broken] = {}


class Table:
    """The platforms of one dimension, and the levels that are asked about them."""

    def __init__(self, dimension: str, levels: str, file: str = "") -> None:
        self.dimension, self.levels, self.file = dimension, tuple(levels.split()), file
        self.table = sys._getframe(1).f_globals["__name__"]

    def __call__(
        self, name: str, defect: str, *words: str | Edit, levels: str = "", healthy: bool = False
    ) -> None:
        """`words`: edits, or pairs of the old and the new text in the table's file."""
        self._add(name, defect, tuple(self._edits(iter(words))), None, levels, healthy)

    def written(self, name: str, defect: str, *, levels: str = "", healthy: bool = False) -> Any:
        """Decorates a function that writes the distribution of a platform into a folder."""

        def register(write: Callable[[Path], Any]) -> Callable[[Path], Any]:
            self._add(name, defect, (), write, levels, healthy)
            return write

        return register

    def _add(self, name: str, defect: str, edits: Any, write: Any, levels: str, healthy: bool) -> None:
        if name in ALL:
            raise ValueError(f"two are called {name}")
        asked = tuple(levels.split()) or self.levels
        ALL[name] = Broken(name, self.table, self.dimension, asked, defect, edits, write, healthy)

    def _edits(self, words: Iterator[str | Edit]) -> Iterator[Edit]:
        for word in words:
            yield word if isinstance(word, Edit) else Edit(self.file, word, str(next(words)))


def load() -> dict[str, Broken]:
    """All tables of this folder."""
    shared = sys.modules.setdefault("broken", sys.modules[__name__])
    for table in TABLES:
        importlib.import_module(table)
    return shared.ALL  # type: ignore[no-any-return]


def __getattr__(name: str) -> Any:
    """The platform class TABLE__NAME: the conformance suite asks for `broken:TABLE__NAME`."""
    table, _, name = name.partition("__")
    if table not in TABLES:
        raise AttributeError(table)
    importlib.import_module(table)
    from patched_reference import ChangedReference

    alias = f"reference_with_{name}"
    if f"{alias}.platform" not in sys.modules:
        ChangedReference(alias, ALL[name].texts())
    return importlib.import_module(f"{alias}.platform").ReferencePlatform
