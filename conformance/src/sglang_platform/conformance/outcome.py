"""What became of one check."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["BAD", "Cause", "Outcome", "Status", "case_fields", "case_text", "failed_with", "plain"]

Status = Literal[
    "failed",
    "blocked",
    "unexpected_pass",
    "suite_failed",
    "expected_failure",
    "not_run",
    "not_applicable",
    "passed",
]
"""failed: the platform is wrong. blocked: an earlier failure keeps the check from running. unexpected_pass: it was
expected to fail and does not. suite_failed: the check raised in its own code, so nothing is known; `why` says what to
report. expected_failure: the vendor knows. not_run: nobody looked; `cause` and `why` say what
it waits for. not_applicable: the platform does not declare or bring what the check is about; `why` says what."""

Failure = Literal["check", "error", "crash", "timeout"]
"""check: a wrong answer. error: the plugin's code raised. crash: its process died. timeout: it did not come back."""

Cause = Literal["device", "host", "extra", "package", "refused", "cannot tell", "interrupted"]
"""What a check that was not run waits for: the device; SGLang; modules of an extra; an installed package of the plugin.
refused: SGLang was not started, for a reason given in words. cannot tell: the check itself says why. interrupted: the
run was ended before it."""

BAD: frozenset[str] = frozenset({"failed", "blocked", "unexpected_pass"})


@dataclass
class Outcome:
    """One check, run or not."""

    id: str
    level: str
    proves: str
    status: Status
    failure: Failure | None = None
    what: str | None = None
    """What was seen and what was expected."""

    case: dict[str, Any] | None = None
    """The smallest case that fails, field by field."""

    fix: str | None = None
    why: str | None = None
    """Why it was not run, does not apply, is blocked, or was expected to fail."""

    cause: Cause | None = None
    """Of a check that was not run."""

    host: str | None = None
    """Where it ran: "none" or "sglang"."""

    trace: str | None = None
    """The plugin's frames of an error, or the last lines of a process that died."""

    cases: int = 0
    seconds: float = 0.0
    seed: int = 0
    rerun: str | None = None
    """The command that runs this check alone, the same way."""

    source: str | None = None
    """Of a failure: the file and line of the check, from the folder that the suite is installed in."""

    place: str | None = None
    """The plugin's file and line that the failure is of; where the line is not known the file of its entry point."""

    parts: list[dict[str, Any]] | None = None
    """Of a check that runs tests of somebody else: each test's `of`, `name`, `status`, `baseline` and `why`."""

    failing: list[dict[str, Any]] = field(default_factory=list)
    """Every case that fails, in the order of the cases: its full `id`, `case`, `failure`, `what`, `fix`, `place`,
    `trace`, and why it was expected (`waived`), or None."""

    widened: list[dict[str, Any]] = field(default_factory=list)
    """Tolerances of the vendor's without which it would have failed: `checks`, `dtype`, `factor`, `reason`, and the
    factor that was `needed`."""

    @property
    def is_bad(self) -> bool:
        return self.status in BAD

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Outcome:
        known = {one.name for one in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in fields.items() if name in known})


def failed_with(failing: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The fields of the outcome of a check of which these cases fail: what is seen first is the smallest."""
    for one in failing:
        one.setdefault("waived", None)
    first = {name: failing[0][name] for name in ("failure", "what", "case", "fix", "place", "trace")}
    return {"status": "failed", **first, "failing": list(failing)}


def case_fields(case: Any) -> dict[str, Any] | None:
    """A case as plain JSON types: the fields of a dataclass, else its text."""
    if case is None:
        return None
    if dataclasses.is_dataclass(case) and not isinstance(case, type):
        return {one.name: plain(getattr(case, one.name)) for one in dataclasses.fields(case)}
    if isinstance(case, dict):
        return {str(name): plain(value) for name, value in case.items()}
    return {"case": plain(case)}


def case_text(case: dict[str, Any] | None) -> str:
    """`page_size=16 dtype=bfloat16`."""
    return " ".join(f"{name}={value}" for name, value in (case or {}).items())


def plain(value: Any) -> Any:
    """A value as JSON types."""
    if isinstance(value, bool | int | float | str) or value is None:
        return value
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    text = str(value)
    return text.removeprefix("torch.") if text.startswith("torch.") else text
