"""What a check is: a function with a stable id, a level, what it requires and what to do when it fails.

    @check(level=Level.MEMORY, requires=[kv_kind("mha")], cases=stores, fix="write row `loc[i]` from `cache_k[i]`")
    def mha_store_reads_back(subject: Subject, case: Store) -> None:
        \"\"\"What is stored is read back, for every dtype, head shape and page size.\"\"\"
        ...
        expect(torch.equal(got, wanted), f"slot {slot} holds {got}, and {wanted} was stored")

The id is `<level>.<function name>`: here `memory.mha_store_reads_back`. The docstring says what the check proves.
Cases are run in the order given, which is smallest first. All of them are run: each that fails is told, under an id
that does not change (`case_ids`), and the first of them is the smallest.
"""

from __future__ import annotations

import importlib
import pkgutil
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from sglang_platform.conformance.level import Level
from sglang_platform.conformance.unanswered import Blocked, NotApplicable, NotRun
from sglang_platform.core.correction import place_of_function

if TYPE_CHECKING:
    from sglang_platform.conformance.requirement import Requirement
    from sglang_platform.conformance.subject import Subject

__all__ = [
    "CREATED",
    "Blocked",
    "Check",
    "CheckFailed",
    "NotApplicable",
    "NotRun",
    "Row",
    "check",
    "expect",
    "found_in",
    "mended_by",
    "registered",
    "rows",
]

HostName = Literal["none", "sglang"]
Needs = Literal["source", "platform", "device"]
"""What must be there: the plugin's files; its platform object; the device itself."""

CREATED = "contract.platform_is_created"
"""The check that tells why there is no platform."""

_Function = TypeVar("_Function", bound=Callable[..., list[dict[str, Any]] | None])

_NEEDS: dict[Level, Needs] = {Level.PACKAGING: "source", Level.CONTRACT: "platform"}
_registry: dict[str, Check] = {}
_CHECKS = "sglang_platform.conformance.checks"  # by its name: its modules import this one


class CheckFailed(AssertionError):
    """The platform does not do what the check proves."""

    def __init__(
        self,
        what: str,
        *,
        case: Any = None,
        fix: str | None = None,
        parts: list[dict[str, Any]] | None = None,
        also: Sequence[CheckFailed] = (),
    ) -> None:
        """`what` says what was seen and what was expected; `case` replaces the one the runner passed; `fix` the
        check's own; `parts` are what a check of several tests gives back (`check`). `also` are further failures of a
        check that looks at several things in one call, each with a `case` of its own, by which it is named."""
        super().__init__(what)
        self.what, self.case, self.fix, self.parts, self.also = what, case, fix, parts, tuple(also)


@dataclass(frozen=True)
class Check:
    """One check. Made by the decorator `check`."""

    id: str
    level: Level
    function: Callable[..., list[dict[str, Any]] | None]
    requires: tuple[Requirement, ...]
    cases: Callable[[Subject, random.Random], Iterable[Any]] | None
    fix: str
    hosts: tuple[HostName, ...]
    needs: Needs
    seconds: float
    founds: str | None = None
    place: str | None = None

    @property
    def source(self) -> str:
        """`file:line` of the check, from the folder that the suite is installed in."""
        return "".join(
            (self.place or place_of_function(self.function) or "").rpartition("sglang_platform/")[1:]
        )

    def fix_of(self, case: Any) -> str:
        """That of the case, where it says one: what a table's row is about knows better than the property."""
        return getattr(case, "fix", None) or self.fix

    @property
    def proves(self) -> str:
        """The docstring, on one line."""
        return " ".join((self.function.__doc__ or "").split())

    def __str__(self) -> str:
        return self.id


def check(
    *,
    level: Level,
    fix: str,
    requires: Sequence[Requirement] = (),
    cases: Callable[[Subject, random.Random], Iterable[Any]] | None = None,
    hosts: Sequence[HostName] = ("none", "sglang"),
    needs: Needs | None = None,
    seconds: float = 60,
    founds: str | None = None,
    place: str | None = None,
) -> Callable[[_Function], _Function]:
    """Register a function as a check: `fn(subject)`, or `fn(subject, case)` where `cases` is given.

    One that runs tests of somebody else gives back how each of them ended, for the report (`Outcome.parts`).

    fix: what the vendor should do when it fails, in one sentence that needs no look into this suite.
    requires: what the platform must have declared; where it has not, the check is not run, and the report says so.
    cases: `cases(subject, rng)` yields the cases, smallest first; `rng` is seeded for this check. A check that
        searches by itself takes `subject.seed`.
    hosts: where it runs: on core's contract alone ("none"), inside a process of SGLang ("sglang"), or both.
    needs: "source" (the plugin's files), "platform" (its object) or "device"; by default the first two levels need
        their own, all others the device.
    seconds: the time limit; a check that exceeds it is stopped and has failed.
    founds: the part that is wrong where it fails, with fields of the case in braces: "{kind} pool". It runs first in
        its level (`Selection.chosen`); what asks the subject for the part later is blocked (`Subject.stands_on`).
    place: `file:line` of the row that a table makes the check of; by default the function's.
    """

    def register(function: _Function) -> _Function:
        name = f"{level.label}.{function.__name__}"
        if not function.__doc__:
            raise ValueError(f"the check {name} has no docstring: it must say what it proves")
        known = _registry.get(name)
        if known is not None and known.function.__module__ != function.__module__:
            raise ValueError(f"two checks are named {name}")
        _registry[name] = Check(
            name,
            level,
            function,
            tuple(requires),
            cases,
            fix,
            tuple(hosts),
            needs or _NEEDS.get(level, "device"),
            seconds,
            founds,
            place,
        )
        return function

    return register


@dataclass(frozen=True)
class Row:
    """A case that is a row of a table: a property of its own, so that where several fail each is a cause."""

    row: str


def rows(table: Iterable[str]) -> Callable[[Subject, random.Random], Iterator[Row]]:
    """The cases of a check over a table, by the names of its rows."""
    return lambda subject, rng: map(Row, table)


def expect(holds: Any, what: str, **more: Any) -> None:
    """Raise CheckFailed, with `more` of it, unless `holds`."""
    if not holds:
        raise CheckFailed(what, **more)


@contextmanager
def mended_by(fix: str | None) -> Iterator[None]:
    """What fails inside and names no fix has this one: a row of a table brings its own. None: the check's."""
    try:
        yield
    except CheckFailed as failed:
        failed.fix = failed.fix or fix
        raise
    except Exception as error:
        if fix:
            error.mended_by = fix  # type: ignore[attr-defined]
        raise


def found_in(module: str, check_id: str) -> Check:
    """The check of that id, from its own module alone: a process that runs one need not import what others need."""
    importlib.import_module(module)
    return _registry[check_id]


def registered() -> dict[str, Check]:
    """All checks by id: by level, then in the order of their files. Imports the modules of `checks`."""
    package = importlib.import_module(_CHECKS)
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda found: found.name):
        importlib.import_module(f"{_CHECKS}.{module.name}")
    # By name of the file, since one of them may import another; stable: the order in a file stays.
    return dict(sorted(_registry.items(), key=lambda item: (item[1].level, item[1].function.__module__)))
