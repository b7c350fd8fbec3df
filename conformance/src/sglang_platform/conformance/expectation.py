"""What a vendor's file says of one check, or of several: that cases fail, or that a type needs a wider bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from sglang_platform.conformance.case_ids import matches, parted
from sglang_platform.conformance.outcome import Outcome
from sglang_platform.core.spelling import nearest

__all__ = ["Expectation", "Tolerance"]

_TIERS = ("default", "thorough")
_MOST = 16.0
"""A bound that is wider by more than this judges nothing."""


@dataclass(frozen=True)
class _Rule:
    """About the checks, and where the glob has brackets the cases, that it fits. `when`: requirements as in package
    metadata (`sglang<0.5.20; platform_machine == "aarch64"`), all of which must hold for it to apply. `tier`: only in
    this one."""

    pattern: str
    reason: str
    when: tuple[Requirement, ...]
    tier: str | None

    @property
    def check(self) -> str:
        return parted(self.pattern)[0]

    @property
    def case(self) -> str | None:
        return parted(self.pattern)[1]

    def is_about(self, check: str) -> bool:
        return matches(self.check, check)

    def applies(self, thorough: bool) -> bool:
        """Whether its conditions hold in this environment and tier."""
        return self.tier in (None, _TIERS[thorough]) and all(map(_holds, self.when))

    def covers(self, name: str) -> bool:
        """Whether it is about the case of this full name."""
        check, case = parted(name)
        return self.is_about(check) and (self.case is None or matches(self.case, case or ""))

    def was_asked(self, outcome: Outcome, names: Sequence[str], partly: bool) -> bool:
        """Whether something that it is about was run, or all of the check that it names and yet nothing of it."""
        if self.case is None:
            return not partly
        if any(matches(self.case, name) for name in names):
            return True
        return not partly and self.check == outcome.id


@dataclass(frozen=True)
class Expectation(_Rule):
    """These cases fail."""

    @classmethod
    def of(cls, pattern: str, value: Any) -> Expectation:
        """From its key and value in the file. Raises ValueError that says what is wrong."""
        fields = {"reason": value} if isinstance(value, str) else value
        return cls(pattern, *_read(pattern, fields, ()))

    @property
    def what(self) -> str:
        return "it" if self.case is None else f"[{self.case}]"

    def is_over(self, outcome: Outcome, names: Sequence[str], *, partly: bool) -> bool:
        """Whether nothing of it fails any more."""
        return not any(map(self.covers, (one["id"] for one in outcome.failing))) and self.was_asked(
            outcome, names, partly
        )


@dataclass(frozen=True)
class Tolerance(_Rule):
    """Numbers of `dtype` may be off by `factor` times the bound."""

    dtype: str
    factor: float

    @classmethod
    def of(cls, value: Any) -> Tolerance:
        """From its table in the file. Raises ValueError that says what is wrong."""
        pattern = str(value.get("checks", "")) if isinstance(value, dict) else ""
        if not pattern:
            raise ValueError("a tolerance names its checks: checks = 'kernels.*'")
        own = {name: value[name] for name in value if name != "checks"}
        common = _read(pattern, own, ("dtype", "factor"))
        dtype, factor = own.get("dtype"), own.get("factor")
        if not isinstance(dtype, str) or not isinstance(factor, int | float) or not 1 < factor <= _MOST:
            raise ValueError(
                f"the tolerance of {pattern} has a dtype, and a factor above 1 and up to {_MOST:g}"
            )
        return cls(pattern, *common, dtype, float(factor))

    @property
    def checks(self) -> str:
        return self.pattern

    def is_over(self, outcome: Outcome, names: Sequence[str], *, partly: bool, thorough: bool) -> bool:
        """Whether the check that it names, and no glob of many, passes without it."""
        if (
            self.check != outcome.id
            or not self.applies(thorough)
            or not self.was_asked(outcome, names, partly)
        ):
            return False
        return not any(
            one["checks"] == self.pattern and one["dtype"] == self.dtype for one in outcome.widened
        )


def _read(pattern: str, fields: Any, more: Sequence[str]) -> tuple[str, tuple[Requirement, ...], str | None]:
    """(reason, when, tier). Raises ValueError."""
    if not isinstance(fields, dict):
        raise ValueError(f"{pattern} has a reason in words, or a table with one")
    known = ("reason", "when", "tier", *more)
    for name in fields:
        if name not in known:
            meant = nearest(name, known)
            raise ValueError(
                f"{pattern}: there is no {name!r}" + (f"; did you mean {meant!r}?" if meant else "")
            )
    reason, tier = fields.get("reason"), fields.get("tier")
    if not isinstance(reason, str) or not reason.strip():
        raise ValueError(f"{pattern} has no reason: say in a sentence why")
    if tier not in (None, *_TIERS):
        raise ValueError(f"{pattern}: tier is {' or '.join(_TIERS)}, and not {tier!r}")
    when = fields.get("when", [])
    try:
        return reason, tuple(Requirement(text) for text in ([when] if isinstance(when, str) else when)), tier
    except (InvalidRequirement, TypeError) as error:
        raise ValueError(
            f"{pattern}: when = {when!r} is no condition: write a distribution with versions, 'sglang<0.5.20': {error}"
        ) from None


def _holds(condition: Requirement) -> bool:
    if condition.marker is not None and not condition.marker.evaluate():
        return False
    try:
        version = metadata.version(condition.name)
    except metadata.PackageNotFoundError:
        return False
    return condition.specifier.contains(version, prereleases=True)
