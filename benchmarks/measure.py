"""Timing on a machine that is shared: contenders take turns, so that drift hits all alike, and medians are taken.

Two scales. Nanoseconds: a statement in one process, in samples far shorter than a scheduler's time slice, so that most
of them run undisturbed. Milliseconds, where no sample is that short: processor time, which is the clock's time on a
machine that nobody else uses; the clock's is kept beside it.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
import timeit
import venv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["OURS", "Aim", "FreshPython", "Times", "against", "nanoseconds", "row", "spread"]

OURS = "sglang_platform"

UNROLLED = 10
"""Copies of a statement in one turn of the timing loop, so that the loop itself costs next to nothing."""

SAMPLE_SECONDS = 0.2e-3
"""Length of one sample; a preempted one is longer by a time slice of some milliseconds."""


class Times(NamedTuple):
    """What processes took: on the clock, and of a processor, which other people's load hardly changes. Milliseconds."""

    wall: list[float]
    cpu: list[float]


def nanoseconds(statements: Mapping[str, tuple[str, dict[str, Any]]], repeats: int) -> dict[str, list[float]]:
    """The time of one execution of each (statement, globals), `repeats` times in turn."""
    timers = {}
    for name, (statement, names) in statements.items():
        timer = timeit.Timer("\n".join([statement] * UNROLLED), globals=names)
        timer.timeit(1000)  # lets the interpreter specialise the code
        once = min(timer.timeit(20) for _ in range(20)) / 20
        timers[name] = (timer, max(1, round(SAMPLE_SECONDS / once)))
    times: dict[str, list[float]] = {name: [] for name in timers}
    for _ in range(repeats):
        for name, (timer, number) in timers.items():
            times[name].append(timer.timeit(number) / (number * UNROLLED) * 1e9)
    return times


class FreshPython:
    """Runs code in fresh processes of a virtual environment that holds nothing.

    What the benchmark's own environment runs at start-up would import modules before the measured code does. Packages
    are on the path after the standard library, as installed ones are, and no variable of the caller's has a say.
    """

    def __init__(self, folder: Path, packages: Iterable[Path]) -> None:
        venv.create(folder, with_pip=False, symlinks=True)
        site = next((folder / "lib").glob("python*/site-packages"))
        (site / "benchmark.pth").write_text("".join(f"{package}\n" for package in packages))
        self._python = str(folder / "bin" / "python")
        self._environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(folder),
            "PYTHONWARNINGS": "ignore",
        }

    def compare(self, codes: Mapping[str, str], repeats: int) -> dict[str, Times]:
        """Each code's time over a bare Python's, in rounds, after one round that fills the caches."""
        codes = {"": "pass", **codes}
        for code in codes.values():
            self._run(code)
        times = {name: Times([], []) for name in codes if name}
        for _ in range(repeats):
            bare = self._run(codes[""])
            for name, record in times.items():
                wall, cpu = self._run(codes[name])
                record.wall.append(wall - bare[0])
                record.cpu.append(cpu - bare[1])
        return times

    def output(self, code: str) -> str:
        """What the code prints."""
        read, write = os.pipe()
        with os.fdopen(read) as pipe:
            child = self._spawn(code, (os.POSIX_SPAWN_DUP2, write, 1))
            os.close(write)
            text = pipe.read()
        self._wait(child, code)
        return text

    def _run(self, code: str) -> tuple[float, float]:
        start = time.perf_counter()
        used = self._wait(self._spawn(code, (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)), code)
        return (time.perf_counter() - start) * 1e3, (used.ru_utime + used.ru_stime) * 1e3

    def _spawn(self, code: str, stdout: tuple[Any, ...]) -> int:
        silent = (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)
        return os.posix_spawn(
            self._python, [self._python, "-c", code], self._environment, file_actions=[stdout, silent]
        )

    def _wait(self, child: int, code: str) -> Any:
        _, status, used = os.wait4(child, 0)
        if status != 0:
            sys.exit(f"this ended with status {os.waitstatus_to_exitcode(status)}:\n{code}")
        return used


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median and minimum, rounded to what can be told apart."""
    return {"median": round(statistics.median(values), 3), "min": round(min(values), 3)}


def against(ours: Sequence[float], peer: Sequence[float]) -> dict[str, float]:
    """Ours over the peer's: the median over the rounds, each of which gives a pair, and the ratio of the minima."""
    pairs = [mine / theirs for mine, theirs in zip(ours, peer, strict=False) if theirs > 0]
    return {
        "median": round(statistics.median(pairs), 4),
        "of_minima": round(min(ours) / min(peer), 4) if min(peer) > 0 else float("nan"),
    }


class Aim(NamedTuple):
    text: str
    limit: float
    against: str | None = None
    """The contender that the limit is a multiple of; None where it is an absolute time."""


def row(
    name: str, case: str, unit: str, times: Mapping[str, list[float]], aim: Aim | None = None, **more: Any
) -> dict[str, Any]:
    """One line of the results. `times` are in rounds (of a processor, for milliseconds); the verdict is on medians."""
    ours = times[OURS]
    ratios = {peer: against(ours, values) for peer, values in times.items() if peer != OURS}
    result: dict[str, Any] = {"row": name, "case": case, "unit": unit}
    result["times"] = {contender: spread(values) for contender, values in times.items()}
    result["ours_over"] = ratios
    if aim is not None:
        value = spread(ours)["median"] if aim.against is None else ratios[aim.against]["median"]
        result["aim"] = {**aim._asdict(), "value": value, "met": value <= aim.limit}
    return {**result, **more}
