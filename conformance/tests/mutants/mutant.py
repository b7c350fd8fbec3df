"""What a mutant is: a platform with one realistic defect, and the check that must catch it.

    @mutant(check="memory.mha_store_reads_back", defect="each row is written one slot too far", says="slot")
    class RowOneTooFar(ReferencePlatform):
        ...

    @mutant(check="packaging.asking_leaves_the_process_alone", defect="the package imports torch", says="torch")
    def imports_torch(folder: Path) -> Installed:
        ...

A check may name cases, where others take minutes and do not reach the defect: `kernels.op_values[op=moe.*]`.
A class is run as a development platform (`name=module:Class`); a function writes a distribution into an empty folder
that goes on the path. `says` is a word that the message must hold, so that it names the cause.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Installed:
    """A plugin written into a folder: its entry-point name, and variables for the process that checks it."""

    name: str
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Mutant:
    name: str
    check: str
    cases: str
    """A glob over those of the check, in brackets; empty: all of them."""

    defect: str
    says: str
    host: str
    location: str | None
    """`module:Class` of a class mutant."""

    write: Callable[[Path], Installed] | None
    """Writes the distribution of a function mutant."""

    device: str = "cpu"
    """The example's device type that a class mutant in SGLang is run on."""

    @property
    def level(self) -> str:
        return self.check.partition(".")[0]


MUTANTS: dict[str, Mutant] = {}


def named(check: str) -> tuple[str, str]:
    """The id of a check, and the cases that are named behind it."""
    name, bracket, cases = check.partition("[")
    return name, bracket + cases


def mutant(
    *, check: str, defect: str, says: str, host: str = "none", device: str = "cpu"
) -> Callable[[Any], Any]:
    """Register a platform class, or a function that writes a distribution, as a mutant."""

    def register(thing: Any) -> Any:
        name = thing.__name__
        is_class = isinstance(thing, type)
        location = f"{thing.__module__}:{thing.__qualname__}" if is_class else None
        write = None if is_class else thing
        if name in MUTANTS:
            raise ValueError(f"{thing.__module__}.{name}: another mutant has this name")
        MUTANTS[name] = Mutant(name, *named(check), defect, says, host, location, write, device)
        return thing

    return register


def all_mutants() -> list[Mutant]:
    """Every mutant of the `mutants_of_*.py` files in this folder, by level and check."""
    import importlib

    if str(HERE) not in sys.path:
        sys.path.insert(0, str(HERE))
    shared = sys.modules.setdefault("mutant", sys.modules[__name__])
    for path in sorted(HERE.glob("mutants_of_*.py")):
        importlib.import_module(path.stem)
    return sorted(shared.MUTANTS.values(), key=lambda one: (one.check, one.name))
