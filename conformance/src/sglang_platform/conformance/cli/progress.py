"""What is shown while checks run: a bar on a terminal, one line per failure anywhere else."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

from sglang_platform.conformance.check import Check
from sglang_platform.conformance.outcome import Outcome, case_text

__all__ = ["Progress"]


_SAY_EVERY = 30.0
"""Seconds between two lines about one build, where no terminal shows a bar."""


class Progress:
    """Goes to standard error, so that standard output holds the result alone."""

    def __init__(self, *, quiet: bool) -> None:
        from rich import progress
        from rich.console import Console

        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._level: str | None = None
        self._quiet = quiet
        self._said = -_SAY_EVERY
        self._bar: Any = None
        if sys.stderr.isatty() and not quiet:
            self._bar = progress.Progress(
                progress.SpinnerColumn(),
                progress.BarColumn(bar_width=24),
                progress.MofNCompleteColumn(),
                progress.TimeElapsedColumn(),
                progress.TextColumn("{task.description}", markup=False),
                console=self._console,
                transient=True,
            )
            self._task = self._bar.add_task("starting", total=None)

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begin(self, count: int) -> None:
        """So many checks will be run."""
        if self._bar is not None:
            self._bar.update(self._task, total=count)

    def building(self, what: str) -> None:
        """Native code is built, which no time limit counts."""
        if self._bar is not None:
            self._bar.update(self._task, description=what)
        elif not self._quiet and time.monotonic() - self._said > _SAY_EVERY:
            self._said = time.monotonic()
            self._console.print(what)

    def start(self, check: Check) -> None:
        if self._bar is not None:
            self._bar.update(self._task, description=check.id)
        elif not self._quiet and self._level != check.level.label:
            self._console.print(f"level {int(check.level)}, {check.level.label}: {check.level.proves}")
        self._level = check.level.label

    def case(self, check: Check, case: dict[str, Any] | None) -> None:
        if self._bar is not None:
            self._bar.update(self._task, description=f"{check.id} {case_text(case)}"[:100])

    def outcome(self, outcome: Outcome) -> None:
        if self._bar is not None:
            self._bar.advance(self._task)
        if outcome.is_bad and not self._quiet:
            self._console.print(f"[bold red]{outcome.status}[/] {outcome.id}")
        elif outcome.status == "suite_failed":
            self._console.print(f"[bold yellow]the suite failed[/] {outcome.id}")
