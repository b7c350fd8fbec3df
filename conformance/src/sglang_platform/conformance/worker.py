"""The process in which a plugin's code runs: takes check ids on standard input, answers on a private pipe.

Run by `process.Worker`. One JSON object a line. In: first the subject, then `{"check": id, "module": its module,
"seed": n, ...}`. Out: `ready`, then for each check `started` when the platform is made, its cases as they begin, those
that fail, and its outcome. What the plugin prints goes to the log. On SIGUSR1 the process writes where it is, so that a
hang can be told.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sglang_platform.conformance.blame import is_the_suites, what_to_report
from sglang_platform.conformance.case_ids import matches
from sglang_platform.conformance.check import (
    CREATED,
    Blocked,
    Check,
    CheckFailed,
    NotApplicable,
    NotRun,
    found_in,
)
from sglang_platform.conformance.description import describe
from sglang_platform.conformance.expectation import Tolerance
from sglang_platform.conformance.expected import VendorFile
from sglang_platform.conformance.failing_case import device_type_of, failing_case, trimmed
from sglang_platform.conformance.fixtures.tensor_memory import give_back_freed_memory
from sglang_platform.conformance.outcome import case_fields, failed_with
from sglang_platform.conformance.plugin import DeviceAbsent
from sglang_platform.conformance.probes.fresh import as_it_is_now
from sglang_platform.conformance.start import foreign_failure, general_plugins, make_parts
from sglang_platform.conformance.subject import PlatformRefused, Subject
from sglang_platform.conformance.tiers import named_cases
from sglang_platform.conformance.tolerance import CURRENT

__all__ = ["run_check"]

Tell = Callable[[dict[str, Any]], None]


def run_check(
    check: Check,
    subject: Subject,
    seed: int,
    tell: Tell = lambda event: None,
    *,
    wanted: Sequence[str] = (),
    first_only: bool = False,
    call: int | None = None,
) -> dict[str, Any]:
    """The outcome's fields, and the number of the `call` that failed first. `tell` is called with each case before it
    runs, and with each that fails. `wanted` are globs over the names of cases, by default all; with `first_only` the
    first failure ends the check; `call` is the one that each case makes, where it is not all."""
    subject.seed, subject.only_call = seed, call
    run = _Cases(check, tell, subject)
    subject.begin()
    CURRENT.begin(check.id, _tolerances(subject))
    try:
        unmet = _unmet(check, subject)
        if unmet is not None:
            return unmet
        if check.cases is None:
            run.ran = 1
            run.parts = run.judge(lambda: check.function(subject), "", None)
        else:
            for name, case in named_cases(check, subject, seed):
                if wanted and not any(matches(one, name) for one in wanted):
                    continue
                tell({"case": case_fields(case), "id": name, "fix": check.fix_of(case)})
                run.ran += 1
                CURRENT.case(name)
                run.judge(partial(check.function, subject, case), name, case)
                if first_only and run.failing:
                    break
            if run.ran == 0:
                why = "no case has such a name" if wanted else "nothing that is declared gives a case for it"
                return {"status": "not_applicable", "why": why}
    except KeyboardInterrupt:
        raise
    except BaseException as ended:  # noqa: BLE001 - the same
        told = _ended(ended)
        if told is None:
            if not run.blames_the_suite(ended, None):  # while cases were made
                run.fail(ended, "", None)
        elif not run.failing and run.blocked is None:
            return told
    return run.outcome()


def _tolerances(subject: Subject) -> list[Tolerance]:
    rules = VendorFile(tables=subject.written).tolerances
    return [one for one in rules if one.applies(subject.thorough)]


class _Cases:
    """What became of the cases of one check so far."""

    def __init__(self, check: Check, tell: Tell, subject: Subject) -> None:
        self.check, self._tell, self._subject = check, tell, subject
        self.ran = 0
        self.failing: list[dict[str, Any]] = []
        self.call = 0
        self.blocked: Blocked | None = None
        """Why a case was not run, of the first one."""
        self.own: dict[str, Any] | None = None
        """What to tell where the suite itself failed, of the first case in which it did."""
        self.parts: list[dict[str, Any]] | None = None

    def judge(self, call: Callable[[], Any], name: str, case: Any) -> Any:
        """What the call answers; where it fails, None, and the failure is kept. Raises what ends the check."""
        self._subject.begin()
        try:
            return call()
        except (NotApplicable, NotRun, PlatformRefused, KeyboardInterrupt):
            raise
        except Blocked as blocked:
            self._subject.blocked = blocked
        except BaseException as error:  # noqa: BLE001 - whatever a plugin raises is an answer, SystemExit too
            if self._subject.blocked or self.blames_the_suite(error, case):
                return None
            parts: list[dict[str, Any]] | None = getattr(error, "parts", None)
            failed = [one for one in parts or () if one["status"] == "failed"]
            for one in failed:
                name = f"{one['of']}::{one['name']}"
                test = {"of": one["of"], "name": one["name"]}
                failing = failing_case(error, self.check, self._subject, name, None)
                self.add({**failing, "case": test, "what": one["why"] or ""})
            for one in () if failed else (error, *getattr(error, "also", ())):
                self.fail(one, name, case)
            return parts
        finally:
            self.blocked = self.blocked or self._subject.blocked
        return None

    def fail(self, error: BaseException, name: str, case: Any) -> None:
        self.add(failing_case(error, self.check, self._subject, name, case))

    def blames_the_suite(self, error: BaseException, case: Any) -> bool:
        """Whether the error is the suite's own; then the first is kept, to be told."""
        if isinstance(error, CheckFailed) or not is_the_suites(error, device_type_of(self._subject)):
            return False
        if self.own is None:
            self.own = {"why": what_to_report(error), "case": case_fields(case), "trace": trimmed(error)}
        return True

    def add(self, failure: dict[str, Any]) -> None:
        if not self.failing:
            self.call = self._subject.call
        again = sum(one["id"].partition("#")[0] == failure["id"].partition("#")[0] for one in self.failing)
        if any(one["id"] == failure["id"] for one in self.failing):
            failure["id"] += f"#{again + 1}"
        self.failing.append(failure)
        self._tell({"failing": failure})

    def outcome(self) -> dict[str, Any]:
        seen = {"cases": self.ran, "parts": self.parts, "widened": CURRENT.widened}
        if self.own is not None and not self.failing:
            return {"status": "suite_failed", **self.own, **seen}
        if self.blocked is not None and not self.failing:
            return {"status": "blocked", "why": str(self.blocked), **seen}
        if self.failing:
            return {**failed_with(self.failing), "call": self.call, **seen}
        return {"status": "passed", **seen}


def _ended(error: BaseException) -> dict[str, Any] | None:
    """The outcome of a check that found that there is nothing for it to judge; None where it failed."""
    if isinstance(error, NotApplicable):
        return {"status": "not_applicable", "why": str(error)}
    if isinstance(error, NotRun):
        return {"status": "not_run", "why": str(error), "cause": error.cause}
    if isinstance(error, Blocked):
        return {"status": "blocked", "why": str(error)}
    if isinstance(error, PlatformRefused):
        why = f"the platform could not be created: see {CREATED}"
        return {"status": "blocked", "why": why}
    return None


def _unmet(check: Check, subject: Subject) -> dict[str, Any] | None:
    """The outcome of a check that this platform, or this machine, has nothing for; None where it can run."""
    if check.needs != "source":
        subject.platform  # noqa: B018 - raises PlatformRefused
    if check.needs == "device":
        try:
            absent = subject.availability
        except DeviceAbsent as error:
            absent = str(error)
        if absent is not None:
            return {"status": "not_run", "cause": "device", "why": f"waits for the device: {absent}"}
    for requirement in check.requires:
        why = requirement.why_not(subject)
        if why is not None:
            waits = requirement.waits_for
            status = "not_applicable" if waits is None else "not_run"
            return {"status": status, "cause": waits, "why": why}
    return None


def _names_of_cases(check: Check, subject: Subject, seed: int) -> list[str]:
    """None where the check has nothing to judge here, or its cases cannot be made, which to run it tells."""
    subject.seed = seed
    subject.begin()
    try:
        return [] if _unmet(check, subject) else [name for name, _ in named_cases(check, subject, seed)]
    except BaseException:  # noqa: BLE001 - a plugin may raise anything
        return []


def _serve(descriptor: int) -> None:
    os.set_inheritable(descriptor, False)
    answers = os.fdopen(descriptor, "w")
    faulthandler.enable()
    with contextlib.suppress(AttributeError):  # not on every system
        faulthandler.register(signal.SIGUSR1, all_threads=True, chain=False)

    def tell(event: dict[str, Any]) -> None:
        answers.write(json.dumps(event) + "\n")
        answers.flush()

    as_it_is_now()
    fields = json.loads(sys.stdin.readline())
    fields["scratch"] = Path(fields["scratch"])
    subject = Subject(**fields)
    tell({"ready": os.getpid(), "plugins": general_plugins(subject)})
    for line in sys.stdin:
        wanted = json.loads(line)
        if "describe" in wanted:
            foreign = foreign_failure(subject)
            tell({"description": describe(subject), "foreign": foreign})
            make_parts(subject)
            tell({"made": True})
            continue
        if "list" in wanted:
            check = found_in(wanted["module"], wanted["list"])
            tell({"cases": _names_of_cases(check, subject, wanted["seed"])})
            continue
        check = found_in(wanted["module"], wanted["check"])
        if check.needs != "source" or check.id == CREATED:
            with contextlib.suppress(PlatformRefused, Exception):  # the check says what it means
                subject.platform  # noqa: B018 - before the check's clock begins
        subject.broken = wanted["broken"]
        tell({"started": True})
        fields = {"wanted": wanted["cases"], "first_only": wanted["first_only"], "call": wanted["call"]}
        tell({"outcome": run_check(check, subject, wanted["seed"], tell, **fields)})
        give_back_freed_memory()


if __name__ == "__main__":
    # Processes that a plugin spawns import this file again as __mp_main__, and must not serve. A function of __main__
    # would be taken for a plugin's.
    from sglang_platform.conformance import worker

    worker._serve(int(sys.argv[1]))
