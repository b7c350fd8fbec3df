"""The reference platform with a line of its source changed, importable under a name of its own.

Most mutants of the levels memory, kernels, graphs and distributed are made this way: the mutant is the difference, and
nothing else of a platform has to be written down. The unchanged source must hold the old text exactly once, so that a
mutant cannot become an empty one unnoticed.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from mutant import MUTANTS, Mutant, named

import sglang_platform.conformance.reference as reference

SOURCE = Path(reference.__file__).parent


class ChangedReference(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The package `alias`: the reference with other text for some of its files."""

    def __init__(self, alias: str, changed: dict[str, str]) -> None:
        self.alias, self.changed = alias, changed
        sys.meta_path.insert(0, self)

    def platform(self) -> type:
        """Its platform class."""
        return importlib.import_module(f"{self.alias}.platform").ReferencePlatform  # type: ignore[no-any-return]

    def forget(self) -> None:
        """As if it had never been imported."""
        sys.meta_path.remove(self)
        for name in [name for name in sys.modules if name.partition(".")[0] == self.alias]:
            del sys.modules[name]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] != self.alias:
            return None
        return importlib.util.spec_from_loader(fullname, self, is_package=fullname == self.alias)

    def exec_module(self, module: ModuleType) -> None:
        file = (module.__name__.partition(".")[2] or "__init__") + ".py"
        text = self.changed.get(file) or (SOURCE / file).read_text()
        text = text.replace(reference.__name__, self.alias)
        exec(compile(text, f"<{file} of {self.alias}>", "exec"), module.__dict__)


@dataclass(frozen=True)
class Patch:
    """One mutant: in `file` of the reference, `old` becomes `new`."""

    file: str
    old: str
    new: str

    def text(self) -> str:
        source = (SOURCE / self.file).read_text()
        if source.count(self.old) != 1:
            raise ValueError(f"{self.file} holds {source.count(self.old)} times, not once: {self.old}")
        return source.replace(self.old, self.new)


PATCHES: dict[str, Patch] = {}


def patch(
    module: str,
    name: str,
    file: str,
    old: str,
    new: str,
    *,
    check: str,
    defect: str,
    says: str,
    host: str = "none",
) -> None:
    """Register a mutant of the module `module`, which must have `__getattr__ = patched`."""
    PATCHES[name] = Patch(file, old, new)
    MUTANTS[name] = Mutant(name, *named(check), defect, says, host, f"{module}:{name}", None)


def patched(name: str) -> Any:
    """The platform class of a registered patch."""
    if name not in PATCHES:
        raise AttributeError(name)
    alias = f"reference_with_{name}"
    if f"{alias}.platform" not in sys.modules:
        ChangedReference(alias, {PATCHES[name].file: PATCHES[name].text()})
    return importlib.import_module(f"{alias}.platform").ReferencePlatform
