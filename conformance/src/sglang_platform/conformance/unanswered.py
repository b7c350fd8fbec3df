"""What a check raises that comes to no answer: blocked, not run, or nothing to judge."""

from __future__ import annotations

from sglang_platform.conformance.outcome import Cause

__all__ = ["Blocked", "NotApplicable", "NotRun"]


class Blocked(Exception):
    """Raised by a check that an earlier failure keeps from running; the text names the check that tells it."""


class NotRun(Exception):
    """Raised by a check that finds, while it runs, that it cannot tell; the report shows the reason."""

    def __init__(self, why: str, *, cause: Cause = "cannot tell") -> None:
        super().__init__(why)
        self.cause = cause


class NotApplicable(Exception):
    """Raised by a check that finds nothing to judge: the platform does not bring what it is about, and need not."""
