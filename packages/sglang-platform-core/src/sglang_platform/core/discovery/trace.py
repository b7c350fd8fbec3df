"""The trace of a decision: the plugins found and asked, their answers, timings, and the caller that triggered it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from sglang_platform.core import errors
from sglang_platform.core.errors import LaunchRefused, PlatformError, PluginOrigin

__all__ = ["SLOW", "Candidate", "Trace", "describe_error", "first_caller_outside", "restored"]

Outcome = Literal["not asked", "chosen", "active", "declined", "failed"]


SLOW = 1.0
"""Seconds."""


@dataclass
class Candidate:
    """One plugin that could provide the platform."""

    origin: PluginOrigin
    value: str
    """Value of the entry point; for a platform named by variable, the class."""

    outcome: Outcome = "not asked"
    reason: str | None = None
    fix: str | None = None
    """The fix, if it declined although its device is present."""

    answer: str | None = None
    """The location of the class, as returned by the plugin."""

    seconds: float | None = None
    """Duration of importing its module and calling `activate()`."""

    @property
    def is_slow(self) -> bool:
        """Whether every process of a launch waits for it noticeably."""
        return self.seconds is not None and self.seconds > SLOW


@dataclass
class Trace:
    """How the platform of one group was decided: as text (`lines`), or as JSON (`as_dict`)."""

    group: str
    triggered_by: str | None = None
    """`file:line (function)` of the first access."""

    settings: dict[str, str] = field(default_factory=dict)
    """The environment variables that are set, with their values."""

    candidates: list[Candidate] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    outcome: str | None = None
    """The decision in one sentence; None while it is being made."""

    error: dict[str, Any] | None = None
    scan_seconds: float = 0.0
    seconds: float = 0.0

    def candidate(self, origin: PluginOrigin) -> Candidate:
        """The candidate with this origin."""
        return next(candidate for candidate in self.candidates if candidate.origin == origin)

    def refused(self, error: PlatformError) -> None:
        """Record that the decision was refused with `error`."""
        self.outcome = f"refused: {error.what}"
        self.error = describe_error(error)

    def as_dict(self) -> dict[str, Any]:
        """The trace in plain JSON types; keys are attribute names."""
        plain = asdict(self)
        for candidate, entry in zip(self.candidates, plain["candidates"], strict=True):
            entry["origin"] = candidate.origin._asdict()
        return plain

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Trace:
        """The trace that `as_dict` described."""
        candidates = [
            Candidate(**{**entry, "origin": PluginOrigin(**entry["origin"])}) for entry in plain["candidates"]
        ]
        return cls(**{**plain, "candidates": candidates})

    def lines(self) -> Iterator[str]:
        """The trace as text, one fact per line."""
        if self.triggered_by:
            yield f"asked for by {self.triggered_by}"
        for variable, value in self.settings.items():
            yield f"{variable}={value}"
        yield f"found in {self.group}: {len(self.candidates)} (scan {self.scan_seconds * 1e3:.1f} ms)"
        for candidate in self.candidates:
            took = "" if candidate.seconds is None else f" in {candidate.seconds * 1e3:.1f} ms"
            answer = f" {candidate.answer}" if candidate.answer else ""
            reason = f": {candidate.reason}" if candidate.reason else ""
            yield f"  {candidate.origin}: {candidate.outcome}{answer}{took}{reason}"
        yield from self.notes
        yield self.outcome or "not decided yet"


def describe_error(error: PlatformError | LaunchRefused) -> dict[str, Any]:
    """A refusal in plain JSON types."""
    return {
        "type": type(error).__name__,
        "what": error.what,
        "plugin": None if error.plugin is None else error.plugin._asdict(),
        "why": error.why,
        "fix": error.fix,
    }


def restored(described: Mapping[str, Any] | None) -> PlatformError | None:
    """The error that `describe_error` described; a LaunchRefused, which ends processes, as a PlatformError."""
    if described is None:
        return None
    cls = getattr(errors, described["type"], PlatformError)
    cls = cls if isinstance(cls, type) and issubclass(cls, PlatformError) else PlatformError
    plugin = PluginOrigin(*described["plugin"].values()) if described["plugin"] else None
    return cls(described["what"], plugin=plugin, why=described["why"], fix=described["fix"])


_TRANSPARENT = ("sglang_platform.core", "importlib", "_frozen_importlib", "contextlib", "typer")


def first_caller_outside() -> str | None:
    """`file:line (function)` of the nearest caller outside this project's core and its command."""
    frame = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith(_TRANSPARENT):
            return f"{frame.f_code.co_filename}:{frame.f_lineno} ({frame.f_code.co_name})"
        frame = frame.f_back  # type: ignore[assignment]
    return None
