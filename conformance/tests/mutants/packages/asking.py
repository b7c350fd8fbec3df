"""Runs judges in a process of their own, with one module of ours changed or its lines watched."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from areas import PLATFORM, ROOT

__all__ = ["Answer", "ask"]

HERE = Path(__file__).parent
_NO_TESTS = 5  # of pytest: all of a file start engines


@dataclass(frozen=True)
class Answer:
    """`failed`: what the judge said, or None where it passed."""

    judge: str
    seconds: float
    failed: str | None


def ask(
    judges: Sequence[str], variables: Mapping[str, str], *, seconds: float, share: str = "0/1"
) -> Iterator[Answer]:
    """Each judge in turn, until one fails; all where lines are watched. They are of one sort: checks, kernels of one
    platform, or tests.

    A process that dies, or does not come back in time, is an answer of the judge that was asked then.
    """
    sort = judges[0].partition(":")[0]
    names = [judge.partition(":")[2] for judge in judges]
    if sort == "check" and "LINES_SEEN_IN" in variables:
        command = [str(HERE / "ask_checks.py"), PLATFORM, *names]
        yield from _of_lines(command, variables, seconds, judges)
    elif sort == "check":
        yield from _of_warm(names, variables["CHANGED_MODULE"], seconds)
    elif sort == "kernels":
        for judge, name in zip(judges, names, strict=True):
            platform, _, kernel = name.partition(":")
            module = "sglang_platform.conformance.kernels.interpreter.run"
            command = ["-m", module, *_places(platform), "--only", kernel, "--share", share]
            interpreted = {**variables, "TRITON_INTERPRET": "1", "OPENBLAS_NUM_THREADS": "1"}
            answers = list(_of_lines(command, interpreted, seconds, [judge]))
            yield from answers
            if any(answer.failed for answer in answers):
                return
    else:
        for judge, name in zip(judges, names, strict=True):
            command = ["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not engine", name]
            (answer,) = _of_lines(command, variables, seconds, [judge])
            yield answer
            if answer.failed:
                return


def _places(platform: str) -> Sequence[str]:
    from sglang_platform.conformance.kernels.load import named

    classes = {"cuda": "sglang_platform.cuda.platform:CudaSRTPlatform"}
    classes["rocm"] = "sglang_platform.rocm.platform:RocmSRTPlatform"
    return tuple(named(classes[platform]).kernels)


def _of_lines(
    command: Sequence[str], variables: Mapping[str, str], seconds: float, judges: Sequence[str]
) -> Iterator[Answer]:
    """What the program prints, a JSON line an answer; by its end where it prints none."""
    process = _started(command, variables)
    late = threading.Event()
    clock = threading.Timer(seconds, lambda: (late.set(), _end(process)))
    clock.start()
    said: list[str] = []
    told, started = 0, time.monotonic()
    try:
        assert process.stdout is not None
        for line in process.stdout:
            answer = _answer(line, judges[0])
            if answer is None:
                said = [*said[-40:], line.rstrip()]
                continue
            told += answer.judge != "check:start"
            yield answer
            if answer.failed and "LINES_SEEN_IN" not in variables:
                return
        status = process.wait()
        if status not in (0, _NO_TESTS):
            why = f"no end within {seconds:g} s" if late.is_set() else f"ended with {status}"
            judge = judges[min(told, len(judges) - 1)]
            yield Answer(judge, time.monotonic() - started, f"{why}: {_words(said)}")
        elif told == 0:
            yield Answer(judges[0], time.monotonic() - started, None)
    finally:
        clock.cancel()
        _end(process)


def _started(
    command: Sequence[str], variables: Mapping[str, str], stdin: int = subprocess.DEVNULL
) -> subprocess.Popen[str]:
    path = os.pathsep.join(filter(None, [str(HERE / "at_start"), os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", **variables, "PYTHONPATH": path},
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


_warm: subprocess.Popen[str] | None = None


def _of_warm(names: Sequence[str], changed: str, seconds: float) -> Iterator[Answer]:
    """Checks in a fork of the one warm process."""
    global _warm
    if _warm is None:
        _warm = _started([str(HERE / "warm.py")], {}, stdin=subprocess.PIPE)
    assert _warm.stdin is not None
    assert _warm.stdout is not None
    _warm.stdin.write(json.dumps({"changed": changed, "checks": list(names), "seconds": int(seconds)}) + "\n")
    _warm.stdin.flush()
    said: list[str] = []
    told, failed, started = 0, False, time.monotonic()
    for line in _warm.stdout:
        answer = _answer(line, "")
        if answer is not None:
            told, failed = told + 1, failed or bool(answer.failed)
            yield answer
        elif line.startswith('{"ended": '):
            status = json.loads(line)["ended"]
            if status != 0 and not failed:
                why = f"no end within {seconds:g} s" if status == -signal.SIGALRM else f"ended with {status}"
                judge = f"check:{names[min(told, len(names) - 1)]}"
                yield Answer(judge, time.monotonic() - started, f"{why}: {_words(said)}")
            return
        else:
            said = [*said[-40:], line.rstrip()]


def _answer(line: str, judge: str) -> Answer | None:
    with contextlib.suppress(ValueError):
        found: Any = json.loads(line) if line.startswith("{") else None
        if isinstance(found, dict) and "asked" in found:
            return Answer(f"check:{found['asked']}", found["seconds"], found["failed"])
        if isinstance(found, dict) and "faults" in found:
            wrong = f"{found['case']}: {'; '.join(found['faults'])}" if found["faults"] else None
            return Answer(judge, found["seconds"], wrong)
    return None


def _words(said: Sequence[str]) -> str:
    """The line of a log that says most: the last error of a test or of a traceback."""
    errors = [line for line in said if line.startswith("E  ") or "Error" in line]
    return (errors or list(said) or [""])[-1].strip()


def _end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
