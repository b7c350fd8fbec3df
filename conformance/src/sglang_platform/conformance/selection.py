"""What to run on what: the options of a run, and the checks that they choose."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from sglang_platform.conformance.case_ids import matches, parted
from sglang_platform.conformance.check import Check, registered
from sglang_platform.conformance.expected import VendorFile
from sglang_platform.conformance.expression import Expression
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.outcome import Outcome
from sglang_platform.conformance.shard import Shard
from sglang_platform.core.spelling import nearest

__all__ = ["Selection", "UnknownCheck"]


class UnknownCheck(ValueError):
    """A check id that does not exist; the text offers the nearest."""


@dataclass(frozen=True)
class Selection:
    """What to run on what. `platform` is an entry-point name, or `name=pkg.mod:Class` for one without a package."""

    platform: str
    host: str = "none"
    levels: tuple[Level, ...] = ()
    checks: tuple[str, ...] = ()
    """Ids or globs over them; one with brackets names cases: `memory.*[*dtype=float16*]`."""

    expression: Expression | None = None
    """Words of ids with and, or, not, as pytest's `-k`: of what would run, only what fits."""

    shard: Shard | None = None
    """Only this part of what is chosen."""

    profiles: tuple[str, ...] = ()
    """Those to judge by; empty: what the platform claims. Their checks run though a level runs only on request."""

    seed: int = 0
    thorough: bool = False
    """More cases, larger ones: `subject.thorough`."""

    models: tuple[str, ...] = ()
    """Files of models' configurations, whose shapes are checked beside the suite's: `subject.models`."""

    vendor_file: VendorFile = field(default_factory=VendorFile)
    patience: float = 1.0
    """The checks' time limits are multiplied by it."""

    first_only: bool = False
    """End each check at its first failing case."""

    environment: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.platform.partition("=")[0]

    @property
    def location(self) -> str | None:
        return self.platform.partition("=")[2] or None

    @property
    def whole(self) -> bool:
        """Whether no check was left out: by name, level, expression, or for another shard."""
        return not (self.checks or self.levels or self.expression or self.shard)

    def chosen(self, required: Collection[str] = ()) -> list[Check]:
        """The checks to run, in order: all but those of levels on request, and the `required` ones of these; or those
        that are named. Raises UnknownCheck where a name or a glob fits none, or an expression leaves none."""
        known = registered()
        for name in self.checks:
            if not any(matches(parted(name)[0], one) for one in known):
                raise UnknownCheck(unknown_check(parted(name)[0], known))
        named = [one for one in known.values() if self._is_named(one, required)]
        if self.expression is not None:
            named = [one for one in named if self.expression.fits(one.id)]
            if not named:
                raise UnknownCheck(
                    f"no check that runs fits -k {str(self.expression)!r}; --level names those on request, and"
                    " --check '*[*WORD*]' the cases with a word"
                )
        named.sort(key=_order)
        return self.shard.of(named) if self.shard else named

    def _is_named(self, check: Check, required: Collection[str]) -> bool:
        if not self.checks and not self.levels:
            return check.id in required or not check.level.on_request
        if self.checks and not any(matches(parted(name)[0], check.id) for name in self.checks):
            return False
        return check.level in self.levels if self.levels else True

    def cases_of(self, check: Check) -> tuple[str, ...]:
        """Globs over the names of its cases; empty: all of them."""
        asked = [parted(name) for name in self.checks]
        mine = [case for name, case in asked if matches(name, check.id)]
        return () if None in mine else tuple(case for case in mine if case is not None)

    def judge(self, check: Check, outcome: Outcome, names: Sequence[str]) -> None:
        """Hold the outcome to the vendor's file. `names` are those of the cases that were run."""
        partly = bool(self.cases_of(check)) or self.first_only
        self.vendor_file.judge(outcome, names, thorough=self.thorough, partly=partly)

    def host_of(self, check: Check) -> str | None:
        """Where the check runs: in SGLang, where that is asked and it can; None where it cannot run at all."""
        if self.host in check.hosts:
            return self.host
        return "none" if "none" in check.hosts else None

    def rerun(self, check: Check) -> str:
        """The command that runs this check alone, the same way."""
        return f"{self.command()} {shlex.join(['--check', check.id, '--seed', str(self.seed)])}"

    def command(self) -> str:
        """The command that runs the whole suite the same way, but for the seed."""
        words = ["sglang-platform", "conformance", "--platform", self.platform]
        words += ["--host", self.host] if self.host != "none" else []
        words += ["--thorough"] if self.thorough else []
        words += [word for path in self.models for word in ("--model", path)]
        return shlex.join(words)


def _order(check: Check) -> tuple[Level, bool, bool, bool]:
    """What others stand on runs first in its level, a part before what is of it ("casts of the mha pool", "attention
    with sinks"); what is computed is judged before the memory and time it takes."""
    module, founds = check.function.__module__.rpartition(".")[2], check.founds
    of_a_part = founds is not None and (" of the " in founds or " with " in founds)
    measures = module.startswith(("kept_memory", "memory_of_", "speed_of_"))
    return check.level, founds is None, of_a_part, measures


def unknown_check(name: str, known: Iterable[str]) -> str:
    """What is said of a check id that does not exist, or a glob that fits none."""
    if "*" in name or "?" in name:
        return f"no check fits {name!r}"
    meant = nearest(name, list(known))
    return f"there is no check {name!r}" + (f"; did you mean {meant!r}?" if meant else "")
