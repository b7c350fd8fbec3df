"""The process in which a plugin's code runs: takes check ids on standard input, answers on a private pipe.

Run by `runner.Worker`. One JSON object a line. In: first the subject, then `{"check": id, "module": its module,
"seed": n}`. Out: `ready`, then for each check its cases as they begin, and its outcome. What the plugin prints goes to
standard error. On SIGUSR1 the process writes where it is, so that a hang can be told.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any

from sglang_platform.conformance.check import Blocked, Check, CheckFailed, NotApplicable, NotRun, found_in
from sglang_platform.conformance.description import describe
from sglang_platform.conformance.inherited import inherited_call
from sglang_platform.conformance.outcome import case_fields
from sglang_platform.conformance.plugin import DeviceAbsent
from sglang_platform.conformance.subject import PlatformRefused, Subject

__all__ = ["run_check"]

_OWN = str(Path(__file__).parent)
_MOST_FRAMES = 12


def run_check(check: Check, subject: Subject, seed: int, tell: Any = lambda event: None) -> dict[str, Any]:
    """The outcome's fields. `tell` is called with each case before it runs."""
    subject.seed = seed
    ran = 0
    case: Any = None
    parts: Any = None
    try:
        unmet = _unmet(check, subject)
        if unmet is not None:
            return unmet
        if check.cases is None:
            ran = 1
            parts = check.function(subject)
        else:
            for case in check.cases(subject, subject.rng()):
                tell({"case": case_fields(case)})
                ran += 1
                check.function(subject, case)
            if ran == 0:
                return {"status": "not_applicable", "why": "nothing that is declared gives a case for it"}
    except NotApplicable as nothing:
        return {"status": "not_applicable", "why": str(nothing)}
    except NotRun as stopped:
        return {"status": "not_run", "why": str(stopped), "cause": stopped.cause}
    except Blocked as blocked:
        return {"status": "blocked", "why": str(blocked)}
    except PlatformRefused:
        why = "the platform could not be created: see contract.platform_is_created"
        return {"status": "blocked", "why": why}
    except CheckFailed as failed:
        found = {"status": "failed", "failure": "check", "what": failed.what, "fix": failed.fix or check.fix}
        shown = case_fields(case if failed.case is None else failed.case)
        return {**found, "case": shown, "cases": ran, "parts": failed.parts}
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever a plugin raises is the check's answer, SystemExit too
        what = _what(error)
        found = {"status": "failed", "failure": "error", "what": what, "fix": _fix_of(error, check)}
        return {**found, "trace": trimmed(error), "case": case_fields(case), "cases": ran}
    return {"status": "passed", "cases": ran, "parts": parts}


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


def _what(error: BaseException) -> str:
    """The error's own words; for one that has none, where it was raised."""
    if str(error):
        return f"{type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    raised_in = f" in {frames[-1].name}()" if frames else ""
    missing = ", which the platform does not implement" if isinstance(error, NotImplementedError) else ""
    return f"{type(error).__name__}{raised_in}{missing}"


def _fix_of(error: BaseException, check: Check) -> str:
    """Where the plugin's own code raised, and what it must do."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    if last is None or last.filename.startswith(_OWN):
        return check.fix
    inherited = inherited_call(error)
    if inherited is not None:
        return f"{inherited}; what it must do: {check.fix}"
    if isinstance(error, NotImplementedError) and "/site-packages/sglang/" in last.filename:
        return f"implement {last.name}() in the platform's device mixin: {check.fix}"
    return (
        f"correct what raises in {last.name}() at {last.filename}:{last.lineno}; what it must do: {check.fix}"
    )


def trimmed(error: BaseException) -> str:
    """The traceback without this suite's machinery: the check's own frame, and all frames of the plugin."""
    frames: list[TracebackType] = []
    at = error.__traceback__
    while at is not None:
        frames.append(at)
        at = at.tb_next
    first = 0
    for index, frame in enumerate(frames):
        if frame.tb_frame.f_code.co_filename.startswith(_OWN):
            first = index
    kept = traceback.extract_tb(frames[first] if frames else None)[-_MOST_FRAMES:]
    lines = traceback.format_list(kept) + traceback.format_exception_only(error)
    if error.__cause__ is not None:
        lines += ["caused by\n", *traceback.format_exception_only(error.__cause__)]
    return "".join(lines).rstrip()


def _serve() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    faulthandler.enable()
    with contextlib.suppress(AttributeError):  # not on every system
        faulthandler.register(signal.SIGUSR1, all_threads=True, chain=False)

    def tell(event: dict[str, Any]) -> None:
        answers.write(json.dumps(event) + "\n")
        answers.flush()

    fields = json.loads(sys.stdin.readline())
    fields["scratch"] = Path(fields["scratch"])
    subject = Subject(**fields)
    tell({"ready": os.getpid()})
    for line in sys.stdin:
        wanted = json.loads(line)
        if "describe" in wanted:
            tell({"description": describe(subject)})
            continue
        check = found_in(wanted["module"], wanted["check"])
        outcome = run_check(check, subject, wanted["seed"], tell)
        tell({"outcome": outcome})


if __name__ == "__main__":
    # Processes that a plugin spawns import this file again as __mp_main__, and must not serve.
    _serve()
