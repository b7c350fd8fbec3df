"""One failing case, as outcomes tell it: what was seen, of which place of the plugin it is, and what to correct."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any

from sglang_platform.conformance.blame import may_come_late, place_of_failure
from sglang_platform.conformance.case_ids import case_id, full_id
from sglang_platform.conformance.check import Check, CheckFailed
from sglang_platform.conformance.outcome import case_fields
from sglang_platform.conformance.subject import Subject
from sglang_platform.core.correction import correction
from sglang_platform.core.errors import ContractError

__all__ = ["device_type_of", "failing_case", "trimmed"]

_OWN = str(Path(__file__).parent)
_MOST_FRAMES = 12
_PLACE = re.compile(r"\s*\((\S+\.py:\d+)\)")
"""In the words of a ContractError."""

_LATE = (
    "look at the calls before the one that raises: the device runs behind the host, and an error comes at the next"
    " wait; what they must do: "
)


def failing_case(
    error: BaseException, check: Check, subject: Subject, name: str, case: Any
) -> dict[str, Any]:
    """The fields of `Outcome.failing`, but for what was waived."""
    if isinstance(error, CheckFailed):
        fix, case = error.fix or check.fix_of(case), case if error.case is None else error.case
        # A check of sources alone asks for no platform.
        platform = None if check.needs == "source" else _platform_class(subject)
        found = {"failure": "check", "what": error.what, "fix": fix, "trace": None}
    else:
        platform, late = _platform_class(subject), may_come_late(error, device_type_of(subject))
        fix = _fix_of(error, check.fix_of(case), platform, late=late)
        found = {"failure": "error", "what": _what(error), "fix": fix, "trace": trimmed(error)}
        if isinstance(error, ContractError):  # says more of the plugin than a traceback
            found |= {"what": _PLACE.sub("", f"{error.what}: {error.why}"), "fix": error.fix or fix}
    entry = (str(file) for module, file in subject.sources if module == subject.module)
    told = _PLACE.search(str(error)) if isinstance(error, ContractError) else None
    place = told[1] if told else place_of_failure(error, subject.built, platform)
    found["place"] = place or next(entry, None)
    return {"id": full_id(check.id, name or case_id(case)), "case": case_fields(case), **found}


def device_type_of(subject: Subject) -> str | None:
    """Of the platform's device; None where there is no platform."""
    try:
        return str(subject.platform.device_type)
    except Exception:  # noqa: BLE001 - another check tells
        return None


def _platform_class(subject: Subject) -> type | None:
    """The class of the platform; None where there is none."""
    try:
        return type(subject.platform)
    except Exception:  # noqa: BLE001 - another check tells
        return None


def _what(error: BaseException) -> str:
    """The error's own words; for one that has none, where it was raised."""
    if str(error):
        return f"{type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    raised_in = f" in {frames[-1].name}()" if frames else ""
    missing = ", which the platform does not implement" if isinstance(error, NotImplementedError) else ""
    return f"{type(error).__name__}{raised_in}{missing}"


def _fix_of(error: BaseException, must: str, platform: type | None, *, late: bool) -> str:
    """What of the plugin's to correct, and what it must do."""
    own, fix = correction(error, platform), getattr(error, "mended_by", must)
    if late:
        return _LATE + fix + (f"; where they are right, {own}" if own else "")
    return f"{own}; what it must do: {fix}" if own else fix


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
