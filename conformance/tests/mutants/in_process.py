"""Checks on a platform class in this process: no worker, no discovery, for mutants by the hundred."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sglang_platform.conformance.case_ids import case_id, matches, parted
from sglang_platform.conformance.check import Check, CheckFailed, NotApplicable, NotRun, registered
from sglang_platform.conformance.outcome import Outcome
from sglang_platform.conformance.parts.core import CoreParts
from sglang_platform.conformance.seeds import seed_of
from sglang_platform.conformance.subject import Subject
from sglang_platform.conformance.worker import run_check

__all__ = ["FixedSubject", "first_failure", "of_speed", "outcome"]


class FixedParts(CoreParts):
    """Parts of a platform object that is there already."""

    def __init__(self, subject: Subject, platform: Any) -> None:
        super().__init__(subject, subject.scratch)
        self._fixed = platform

    def make_platform(self) -> Any:
        return self._fixed


class FixedSubject(Subject):
    """A subject whose platform is the object given."""

    def __init__(self, platform: Any) -> None:
        super().__init__("in_process")
        self.parts = FixedParts(self, platform)


def of_speed(check: Check) -> bool:
    """Whether it compares times, which no test is held to; `healthy.py` and `run_mutants.py` run these too."""
    module = check.function.__module__.rpartition(".")[2]
    return module.startswith("speed_of_") or check.id == "graphs.replay_is_not_slower_than_eager"


def first_failure(platform: type, checks: Sequence[str], seed: int = 0) -> tuple[str | None, str]:
    """(id, message) of the first of the checks that fails on `platform`, or (None, ""). A name may end in a glob over
    the cases, in brackets."""
    subject = FixedSubject(platform())
    known = registered()
    for name, wanted in map(parted, checks):
        check = known[name]
        subject.seed = seed_of(seed, name)
        if any(requirement.why_not(subject) is not None for requirement in check.requires):
            continue
        try:
            if check.cases is None:
                check.function(subject)
            else:
                for case in check.cases(subject, subject.rng()):
                    if wanted is None or matches(wanted, case_id(case)):
                        check.function(subject, case)
        except (NotApplicable, NotRun):
            continue
        except CheckFailed as failure:
            return name, failure.what
        except Exception as error:  # noqa: BLE001 - what the platform raises is a failure as well
            return name, f"{type(error).__name__}: {error}"
    return None, ""


def outcome(platform: type, check_id: str, seed: int = 0) -> Outcome:
    """What becomes of one check on `platform`, as a worker tells it."""
    check = registered()[check_id]
    found = run_check(check, FixedSubject(platform()), seed_of(seed, check_id))
    return Outcome.of({"id": check.id, "level": check.level.label, "proves": check.proves, **found})
