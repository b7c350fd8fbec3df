"""One sitting of a run: its checks from the first, or from where an earlier sitting was cut off, to a report.

However it ends there is a report. Ctrl-C, SIGTERM and SIGHUP end the check in progress with everything that it started;
what was not run is told as that. After a SIGKILL the next sitting finds what was done (`--resume`).
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from sglang_platform.conformance.check import Check
from sglang_platform.conformance.cli.progress import Progress
from sglang_platform.conformance.description import nobody
from sglang_platform.conformance.outcome import Outcome
from sglang_platform.conformance.plugin import CheckedPlugin
from sglang_platform.conformance.profiles import judged_by, profiles
from sglang_platform.conformance.report.digests import file_digest, plugin_digest, suite_digest
from sglang_platform.conformance.report.document import make_document
from sglang_platform.conformance.report.progress_log import ProgressLog
from sglang_platform.conformance.runner import Runner
from sglang_platform.conformance.seeds import seed_of
from sglang_platform.conformance.selection import Selection

__all__ = ["Sitting"]


class _Interrupted(BaseException):
    """A signal asked this process to end; the text is its name."""


class Sitting:
    """`run()` answers with the document. Raises ConfigurationError where `resume` has nothing to go on with."""

    def __init__(
        self, selection: Selection, folder: Path | None, *, resume: bool, command: str, quiet: bool
    ) -> None:
        self._selection, self._command, self._quiet = selection, command, quiet
        self._begun = self._started = time.time()
        self._done: dict[str, Outcome] = {}
        self._log: ProgressLog | None = None
        self._sittings, self._before = 1, 0.0
        if folder is not None:
            self._log = ProgressLog(folder, _key(selection))
            if resume:
                self._log.resume()
                self._command, self._started = self._log.command or command, self._log.started
                self._done, self._sittings = dict(self._log.outcomes), self._log.sittings
                self._before = sum(one.seconds for one in self._done.values())
            else:
                self._log.begin(command, self._started)

    def run(self) -> dict[str, Any]:
        """Every check that is left."""
        about = nobody(self._selection.name, self._selection.location, None)
        judged = judged_by(self._selection.profiles, about)
        chosen = self._selection.chosen()
        with _signals_raise(), Progress(quiet=self._quiet) as progress:
            runner = Runner(
                self._selection,
                on_start=progress.start,
                on_case=progress.case,
                on_outcome=progress.outcome,
                on_building=progress.building,
            )
            interrupted: str | None = None
            try:
                about = runner.describe()
                judged = judged_by(self._selection.profiles, about)
                chosen = self._selection.chosen(
                    {check for name in judged for check in profiles()[name].checks}
                )
                left = [one for one in chosen if one.id not in self._done]
                for one in chosen:
                    if one.id in self._done:
                        runner.learn(one, self._done[one.id])
                progress.begin(len(left))
                self._run(runner, left)
            except (KeyboardInterrupt, _Interrupted) as ended:
                interrupted = str(ended) or "SIGINT"
            finally:
                with _signals_wait():
                    runner.close(kindly=interrupted is None)
        if self._log is not None and interrupted is None:
            self._log.finish()
        return make_document(
            self._selection,
            about,
            [self._done.get(one.id) or _not_reached(one, self._selection, interrupted) for one in chosen],
            judged,
            started=self._started,
            command=self._command,
            seconds=time.time() - self._begun + self._before,
            sittings=self._sittings,
            left_out=runner.left_out,
        )

    def _run(self, runner: Runner, checks: Sequence[Check]) -> None:
        for check in checks:
            outcome = runner.run_one(check)
            self._done[check.id] = outcome
            if self._log is not None:
                self._log.add(outcome)


def _key(selection: Selection) -> dict[str, Any]:
    """What must be the same for a run to go on."""
    file = selection.vendor_file.path
    return {
        "--platform": selection.platform,
        "--host": selection.host,
        "--level": [level.label for level in selection.levels],
        "--check": list(selection.checks),
        "-k": str(selection.expression or ""),
        "--shard": str(selection.shard or ""),
        "--profile": list(selection.profiles),
        "--seed": selection.seed,
        "--thorough": selection.thorough,
        "--model": [[path, file_digest(Path(path))] for path in selection.models],
        "the vendor's file": file_digest(file) if file else None,
        "the suite": suite_digest(),
        "the plugin": _plugin(selection),
    }


def _plugin(selection: Selection) -> str | None:
    record = CheckedPlugin(selection.name, selection.location).record
    return plugin_digest({"location": selection.location, "entry_point": record.value if record else None})


def _not_reached(check: Check, selection: Selection, interrupted: str | None) -> Outcome:
    why = f"the run was ended by {interrupted} before it" if interrupted else "the run ended before it"
    seed = seed_of(selection.seed, check.id)
    return Outcome(
        check.id, check.level.label, check.proves, "not_run", cause="interrupted", why=why, seed=seed
    )


_ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def _signals_raise() -> Iterator[None]:
    """A signal that asks to end ends the check in progress, as Ctrl-C does."""

    def end(number: int, frame: FrameType | None) -> None:
        raise _Interrupted(signal.Signals(number).name)

    before = {number: signal.signal(number, end) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _signals_wait() -> Iterator[None]:
    """While processes are ended no second signal leaves any of them."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (*_ENDING, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
