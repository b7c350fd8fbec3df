"""What is shown while checks run: a bar on a terminal, one line per failure anywhere else."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

from sglang_platform.conformance.check import Check
from sglang_platform.conformance.outcome import Outcome, case_text

__all__ = ["Progress"]


class Progress:
    """Goes to standard error, so that standard output holds the result alone."""

    def __init__(self, checks: list[Check], *, quiet: bool) -> None:
        from rich import progress
        from rich.console import Console

        self._total, self._done, self._bad = len(checks), 0, 0
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._level: str | None = None
        self._quiet = quiet
        self._begun = time.monotonic()
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
            self._task = self._bar.add_task("starting", total=self._total)

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

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
