"""A step of `gpu_all.py` in a process of its own, which may raise, hang or die."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from gpu_journal import Reader

__all__ = ["Ended", "follow"]

_POLL = 0.1
_TO_BEGIN = 120.0
"""Seconds that a process has to import its libraries and reach the device."""
_KINDLY = 15.0
"""Seconds that a process has to write what it knows, between the request to end and the end."""


@dataclass(frozen=True)
class Ended:
    """How a step ended. `how`: "finished" with status 0; "died" with another; "silent", killed because nothing was
    heard from it for too long; "late", killed at its time limit."""

    how: Literal["finished", "died", "silent", "late"]
    words: str
    seconds: float


def follow(
    command: Sequence[str],
    *,
    journal: Path,
    log: Path,
    environment: Mapping[str, str],
    limit: float,
    silence: float,
    heard: Callable[[dict[str, Any]], None],
    stopped: Callable[[], bool],
) -> Ended:
    """Run `command` and hand each event of its journal to `heard`, also those that it wrote before it ended badly.

    limit: seconds that it may take; silence: seconds that it may write nothing, once it has begun; stopped: asked
    while it runs. Whatever it has started ends with it, however this function is left.
    """
    start = last = time.monotonic()
    reader = Reader(journal)
    how: Literal["silent", "late"] | None = None
    patience = max(silence, _TO_BEGIN)
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=dict(environment),
            start_new_session=True,
        )
        try:
            while process.poll() is None:
                time.sleep(_POLL)
                now = time.monotonic()
                for event in reader.new():
                    heard(event)
                    last, patience = now, silence
                if stopped() or now - start > limit:
                    how = "late"
                    break
                if now - last > patience:
                    how = "silent"
                    break
        finally:
            _end(process)
    for event in reader.new():
        heard(event)
    seconds = time.monotonic() - start
    if how == "late":
        return Ended(
            "late", "the run was stopped" if stopped() else f"ended at its limit of {limit:.0f} s", seconds
        )
    if how == "silent":
        return Ended("silent", f"ended after {silence:.0f} s without a word", seconds)
    if process.returncode == 0:
        return Ended("finished", "", seconds)
    return Ended("died", f"{_status(process.returncode)}: {_last_line(log)}", seconds)


def _end(process: subprocess.Popen[bytes]) -> None:
    """The process and its children: asked first, so that a report is written, then killed."""
    for number, wait in ((signal.SIGTERM, _KINDLY), (signal.SIGKILL, None)):
        if process.poll() is not None and number is signal.SIGTERM:
            continue
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(wait)


def _status(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else "it printed nothing"
