"""The checks of one test class in one process of pytest: which cases there are, and what became of each check.

A check runs once, at the first of its tests, with those of its cases that pytest has chosen. What it came to goes with
the report of that test to the process that writes the report: `SuiteRun.told`, `document_of`.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from sglang_platform.conformance.case_ids import full_id, matches
from sglang_platform.conformance.check import Check, registered
from sglang_platform.conformance.expected import read_vendor_file
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.outcome import Outcome, failed_with
from sglang_platform.conformance.profiles import judged_by, profile
from sglang_platform.conformance.report.document import make_document
from sglang_platform.conformance.runner import Runner
from sglang_platform.conformance.selection import Selection
from sglang_platform.core.discovery.named import platform_named

__all__ = ["Case", "SuiteRun", "document_of"]

Case = tuple[Check, "str | None"]
"""A check, and the name of one of its cases; None for a check without cases, or whose cases cannot be made here."""


class SuiteRun:
    """Of these options, all JSON types: see `PlatformSuite`. The platform is asked at once, for the cases that its
    declarations give. Raises ValueError or PlatformError for options that cannot be understood."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options, self._selection = options, _selection(options)
        self._selection.chosen()
        if self._selection.models:
            from sglang_platform.conformance.fixtures.model_config import shapes_of  # imports torch

            for path in self._selection.models:
                shapes_of(Path(path))
        self._runner = Runner(self._selection)
        self._about = self._runner.describe()
        self._outcomes: dict[str, tuple[Outcome, list[str]]] = {}
        self._untold: list[dict[str, Any]] = []
        checks = _chosen(self._selection, self._about)
        listed = self._runner.list_cases(checks)
        self.cases: list[Case] = []
        for check in checks:
            globs = self._selection.cases_of(check)
            names = [
                one for one in listed.get(check.id, ()) if not globs or any(matches(g, one) for g in globs)
            ]
            self.cases += [(check, name) for name in names or [None]]

    def outcome(self, case: Case, chosen: Collection[Case]) -> Outcome:
        """Of one case, or of the check where it has none. `chosen` are all that pytest may run in this process."""
        check, name = case
        if check.id not in self._outcomes:
            names = [full_id(check.id, one or "") for of, one in chosen if of is check]
            partly = len(names) < sum(of is check for of, _ in self.cases)
            if partly:
                self._runner.selection = dataclasses.replace(self._selection, checks=tuple(names))
            try:
                outcome = self._runner.run_one(check)
            finally:
                self._runner.selection = self._selection
            self._outcomes[check.id] = outcome, names
            self._untold.append({"outcome": outcome.as_dict(), "cases": names if partly else None})
        outcome, names = self._outcomes[check.id]
        return outcome if name is None else _of_case(outcome, names, full_id(check.id, name))

    def told(self) -> dict[str, Any] | None:
        """What ran since this was last asked, as JSON types; None where nothing did."""
        untold, self._untold = self._untold, []
        about = {"options": self._options, "about": self._about, "left_out": self._runner.left_out}
        return {**about, "outcomes": untold} if untold else None

    def close(self) -> None:
        self._runner.close()


def document_of(told: Sequence[Mapping[str, Any]], started: float, seconds: float) -> dict[str, Any]:
    """The report's document, of what all processes of pytest told of one class. Its command is that which runs the same
    without pytest."""
    options, about = told[0]["options"], told[0]["about"]
    parts = {one["outcome"]["id"]: one for each in told for one in each["outcomes"]}
    selection = _selection(options)
    chosen = [one.id for one in _chosen(selection, about)]
    if set(chosen) != set(parts) or any(one["cases"] for one in parts.values()):
        names = tuple(name for id, one in parts.items() for name in one["cases"] or [id])
        selection = dataclasses.replace(selection, checks=names, levels=())
    outcomes = [Outcome.of(parts[id]["outcome"]) for id in chosen if id in parts]
    words = [word for name in selection.checks for word in ("--check", name)]
    words += [word for level in selection.levels for word in ("--level", level.label)]
    words += [word for name in selection.profiles for word in ("--profile", name)]
    return make_document(
        selection,
        about,
        outcomes,
        judged_by(selection.profiles, about),
        started=started,
        command=f"{selection.command()} {shlex.join(words)}".rstrip(),
        seconds=max(seconds, sum(one.seconds for one in outcomes)),
        left_out=told[0]["left_out"],
    )


def _selection(options: Mapping[str, Any]) -> Selection:
    platform, file = options["platform"], options["config"]
    return Selection(
        platform if "=" in platform else platform_named(platform),
        host=options["host"],
        levels=tuple(map(Level.parse, options["levels"])),
        checks=tuple(options["checks"]),
        profiles=tuple(profile(name).name for name in options["profiles"]),
        seed=options["seed"],
        thorough=options["thorough"],
        models=tuple(options["models"]),
        vendor_file=read_vendor_file(Path(file) if file else None, list(registered())),
        patience=options["patience"],
    )


def _chosen(selection: Selection, about: Mapping[str, Any]) -> list[Check]:
    required = {check for name in judged_by(selection.profiles, about) for check in profile(name).checks}
    return selection.chosen(required)


def _of_case(outcome: Outcome, names: Sequence[str], name: str) -> Outcome:
    """What became of one case of a check. `names` are the full ones of those that were to be run. A failure of none of
    them, as of a check that fails before its first case, is the first one's."""
    mine = [one for one in outcome.failing if _owner(one["id"], names) == name]
    left = [one for one in mine if one["waived"] is None]
    if mine:
        status = "failed" if left else "expected_failure"
        why = "; ".join(dict.fromkeys(one["waived"] for one in mine if one["waived"]))
        told = {**failed_with(left or mine), "status": status, "why": why, "cases": 1}
        return dataclasses.replace(outcome, **told)
    died = outcome.failing and outcome.failing[-1]["failure"] in ("crash", "timeout")
    if died and names.index(name) >= outcome.cases:
        why = f"the process ended before this case, in {outcome.failing[-1]['id']}"
        return dataclasses.replace(outcome, status="not_run", why=why)
    if outcome.failing or (outcome.status == "unexpected_pass" and name != names[0]):
        return dataclasses.replace(outcome, status="passed")
    return outcome


def _owner(failing: str, names: Sequence[str]) -> str:
    """A second failure of one case has a number behind the brackets."""
    return next((one for one in names if failing == one or failing.startswith(f"{one}#")), names[0])
