"""The trace of a decision: the plugins found and asked, their answers, timings, and the caller that triggered it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from sglang_platform.core.errors import PlatformError, PluginOrigin

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

__all__ = ["Candidate", "Trace", "describe_error", "first_caller_outside"]

Outcome = Literal["not asked", "chosen", "active", "declined", "failed"]

_STYLES = {"chosen": "green", "active": "yellow", "declined": "dim", "failed": "red", "not asked": "dim"}


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


@dataclass
class Trace:
    """How the platform of one group was decided: as text (`lines`), printed by rich, or as JSON (`as_dict`)."""

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

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.markup import escape
        from rich.table import Table
        from rich.text import Text

        if self.triggered_by:
            yield Text(f"asked for by {self.triggered_by}", style="dim")
        for variable, value in self.settings.items():
            yield Text(f"{variable}={value}")
        table = Table("platform", "distribution", "outcome", "answer or reason", "time")
        for candidate in self.candidates:
            distribution = " ".join(filter(None, candidate.origin[1:]))
            table.add_row(
                escape(candidate.origin.name),
                escape(distribution),
                Text(candidate.outcome, style=_STYLES[candidate.outcome]),
                escape(candidate.reason or candidate.answer or ""),
                "" if candidate.seconds is None else f"{candidate.seconds * 1e3:.1f} ms",
            )
        if self.candidates:
            yield table
        for note in self.notes:
            yield Text(note)
        yield Text(self.outcome or "not decided yet", style="red" if self.error else "bold")


def describe_error(error: PlatformError) -> dict[str, Any]:
    """A PlatformError in plain JSON types."""
    return {
        "type": type(error).__name__,
        "what": error.what,
        "plugin": None if error.plugin is None else error.plugin._asdict(),
        "why": error.why,
        "fix": error.fix,
    }


_TRANSPARENT = (
    "sglang_platform.core.discovery",
    "sglang_platform.core.plugins",
    "importlib",
    "_frozen_importlib",
    "contextlib",
)


def first_caller_outside() -> str | None:
    """`file:line (function)` of the nearest caller outside discovery."""
    frame = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith(_TRANSPARENT) and module != "sglang_platform.core":
            return f"{frame.f_code.co_filename}:{frame.f_lineno} ({frame.f_code.co_name})"
        frame = frame.f_back  # type: ignore[assignment]
    return None
