"""The verdict of a run: conformant to profiles, not conformant, or incomplete. Computed from the outcomes alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sglang_platform.conformance.outcome import BAD
from sglang_platform.conformance.profiles import Profile, profile

__all__ = ["EXIT_STATUS", "NOT_SELECTED", "RunVerdict", "Word", "judge"]

Word = Literal["conformant", "not conformant", "incomplete"]

EXIT_STATUS: Mapping[Word, int] = {"conformant": 0, "not conformant": 1, "incomplete": 3}

NOT_SELECTED = "not selected"
_WAIVED = "expected failure"
_WIDENED = "wider tolerance"
_NOT_BROUGHT = "not declared"
_SUITE_FAILED = "the suite failed"


@dataclass(frozen=True)
class ProfileVerdict:
    """One profile: which of its checks passed, failed, or were not run, by the reason."""

    name: str
    checks: int
    passed: int
    not_applicable: int
    """Of those that count only where the platform brings something for them."""

    failed: tuple[str, ...]
    missing: Mapping[str, tuple[str, ...]]
    """Reason to ids: no device, no host, not selected, expected failure, ..."""

    @property
    def word(self) -> Word:
        if self.failed:
            return "not conformant"
        return "incomplete" if self.missing else "conformant"

    def as_dict(self) -> dict[str, Any]:
        missing = {reason: list(ids) for reason, ids in self.missing.items()}
        counts = {"checks": self.checks, "passed": self.passed, "not_applicable": self.not_applicable}
        return {
            "name": self.name,
            "word": self.word,
            **counts,
            "failed": list(self.failed),
            "missing": missing,
        }


@dataclass(frozen=True)
class RunVerdict:
    """The verdict over the profiles asked for, and over everything that ran."""

    profiles: tuple[ProfileVerdict, ...]
    failed: tuple[str, ...]
    """All checks that failed, also those of no profile."""

    waived: tuple[str, ...]
    """All of which cases fail that were expected to."""

    cases_waived: int
    widened: tuple[str, ...]
    """All that pass by a wider tolerance of the vendor's."""

    device_absent: bool
    blocked: int = 0
    """How many of the failed were not run, since another of them failed."""

    suite_failed: tuple[str, ...] = ()
    """All in which the suite itself failed, also those of no profile."""

    @property
    def word(self) -> Word:
        if self.failed:
            return "not conformant"
        words = {one.word for one in self.profiles}
        if self.suite_failed:
            return "incomplete"
        return "incomplete" if "incomplete" in words or not words else "conformant"

    @property
    def headline(self) -> str:
        """The verdict in one line: the same in the terminal, the page, the JSON and the badge."""
        return f"{self._said()}{self._waivers()}{'; not proven on hardware' if self.device_absent else ''}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "word": self.word,
            "headline": self.headline,
            "failed": list(self.failed),
            "suite_failed": list(self.suite_failed),
            "waived": list(self.waived),
            "cases_waived": self.cases_waived,
            "widened": list(self.widened),
            "profiles": [one.as_dict() for one in self.profiles],
        }

    def _said(self) -> str:
        names = ", ".join(one.name for one in self.profiles)
        if self.word == "conformant":
            return f"conformant to {names}"
        if self.word == "not conformant":
            blocked = f", {self.blocked} blocked" if self.blocked else ""
            return f"not conformant to {names}: {_checks(len(self.failed) - self.blocked)} failed{blocked}"
        short = next((one for one in self.profiles if one.word == "incomplete"), None)
        if short is None:
            return f"incomplete: the suite itself failed in {_checks(len(self.suite_failed))}"
        reasons = ", ".join(f"{len(ids)} {reason}" for reason, ids in short.missing.items())
        count = sum(map(len, short.missing.values()))
        return f"incomplete: {count} of {_checks(short.checks)} of {short.name} not run ({reasons})"

    def _waivers(self) -> str:
        said = ""
        if self.waived:
            cases = f" ({self.cases_waived} cases)" if self.cases_waived > len(self.waived) else ""
            said = f"; {_checks(len(self.waived))} waived{cases}"
        return said + (f"; tolerance widened in {_checks(len(self.widened))}" if self.widened else "")


def judge(
    outcomes: Sequence[Mapping[str, Any]], asked: Sequence[str], *, device_absent: bool = False
) -> RunVerdict:
    """The verdict over the profiles named; `outcomes` are a report's. Raises ValueError for an unknown profile."""
    by_id = {outcome["id"]: outcome for outcome in outcomes}
    judged = tuple(_judge_one(profile(name), by_id) for name in dict.fromkeys(asked))
    failed = tuple(outcome["id"] for outcome in outcomes if outcome["status"] in BAD)
    cases = {one["id"]: sum(each["waived"] is not None for each in one["failing"]) for one in outcomes}
    waived = tuple(one["id"] for one in outcomes if cases[one["id"]] or one["status"] == "expected_failure")
    widened = tuple(outcome["id"] for outcome in outcomes if outcome["widened"])
    own = tuple(outcome["id"] for outcome in outcomes if outcome["status"] == "suite_failed")
    blocked = sum(outcome["status"] == "blocked" for outcome in outcomes)
    return RunVerdict(judged, failed, waived, sum(cases.values()), widened, device_absent, blocked, own)


def _judge_one(asked: Profile, by_id: Mapping[str, Mapping[str, Any]]) -> ProfileVerdict:
    counts: Counter[str] = Counter()
    failed: list[str] = []
    missing: dict[str, list[str]] = {}
    for name in asked.checks:
        outcome = by_id.get(name)
        status = outcome["status"] if outcome else None
        if outcome is None:
            missing.setdefault(NOT_SELECTED, []).append(name)
        elif status in BAD:
            failed.append(name)
        elif status == "suite_failed":
            missing.setdefault(_SUITE_FAILED, []).append(name)
        elif status == "expected_failure":
            missing.setdefault(_WAIVED, []).append(name)
        elif outcome["widened"]:
            missing.setdefault(_WIDENED, []).append(name)
        elif status == "not_run":
            missing.setdefault(_reason(outcome), []).append(name)
        elif status == "not_applicable" and name in asked.required:
            missing.setdefault(_NOT_BROUGHT, []).append(name)
        else:
            counts[str(status)] += 1
    return ProfileVerdict(
        asked.name,
        len(asked.checks),
        counts["passed"],
        counts["not_applicable"],
        tuple(failed),
        {reason: tuple(ids) for reason, ids in missing.items()},
    )


def _reason(outcome: Mapping[str, Any]) -> str:
    cause = outcome["cause"]
    return {"device": "no device", "host": "no SGLang", "extra": "no extra", "package": "no package"}.get(
        cause, cause
    )


def _checks(count: int) -> str:
    return f"{count} check{'' if count == 1 else 's'}"
