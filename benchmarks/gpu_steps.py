"""The steps of `gpu_all.py`: which processes run, for how long, and what their end means for the rest."""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Any

import gpu_record
from gpu_child import Ended, follow
from gpu_journal import in_a_line
from gpu_record import Record

__all__ = ["STEPS", "Steps"]

STEPS = ("compile", "correctness", "rows", "racecheck", "conformance")
_PROGRAM = str(Path(__file__).with_name("gpu.py"))
_SHARE = {"compile": 0.15, "correctness": 0.25}
"""The most that a step before the rows may take of the budget, where it is not the only one."""
_AT_ONCE = 4
"""Processes that check kernels on one device side by side: nothing is timed there."""
_LEAST = 2.0
"""Seconds without which no process is started."""


class Steps:
    """One run. `plan()` first, then `run()`."""

    why_not = ""
    """Why there is no plan."""

    def __init__(self, options: argparse.Namespace, environment: dict[str, str], scratch: Path) -> None:
        self._options = options
        self._environment = environment
        self._scratch = scratch
        self._end = time.monotonic() + options.budget
        self._numbers = itertools.count()
        self._stopped = False

    def stop(self) -> None:
        """Every process that runs is ended soon, and no other is started."""
        self._stopped = True

    def plan(self) -> dict[str, Any] | None:
        """What `gpu.py` says of the device, or None where it cannot use one."""
        heard: list[dict[str, Any]] = []
        ended = self._follow(["--do", "plan", *self._groups()], heard.append, limit=self._left())
        if not heard:
            self.why_not = ended.words
            return None
        plan: dict[str, Any] = heard[0]["plan"]
        return plan

    def run(self, plan: dict[str, Any], record: Record) -> None:
        """Every step that was asked for, in order, while the budget lasts."""
        record.found["versions"], record.found["copy_bandwidth"] = plan["versions"], plan["copy_bandwidth"]
        self._plan, self._record = plan, record
        record.save()
        steps: dict[str, Callable[[float], Iterable[Ended]]] = {
            "compile": self._compile,
            "correctness": self._correctness,
            "rows": self._rows,
            "racecheck": self._racecheck,
            "conformance": self._conformance,
        }
        for name in self._options.steps:
            start = time.monotonic()
            alone = len(self._options.steps) == 1
            most = self._options.budget * (1.0 if alone else _SHARE.get(name, 1.0))
            if self._left() < _LEAST and name != "rows":  # rows are listed one by one
                record.add("not_run", what=name, why=self._used_up())
                continue
            try:
                ended = list(steps[name](min(most, self._left())))
            except Exception as error:  # noqa: BLE001 - a fault of this program in one step must not cost the others
                ended = [Ended("died", f"gpu_all.py failed: {in_a_line(error)}", 0.0)]
                record.found["faults"].append(f"{name}: {ended[0].words}")
            bad = [one.words for one in ended if one.how != "finished"]
            record.add(
                "steps",
                step=name,
                ended="finished" if not bad else f"{len(bad)} of {len(ended)} processes ended badly",
                seconds=time.monotonic() - start,
                words="; ".join(dict.fromkeys(bad))[:600],
            )
            record.save()

    # Each step

    def _compile(self, most: float) -> Iterator[Ended]:
        """Rows pretended on the CPU: the same specialisations, in the cache before a row is timed."""
        target = self._plan["versions"]["target"]
        rows = self._plan["rows"]
        if self._options.pretend:  # then the rows do nothing else
            self._record.add(
                "not_run", what="compile", why="without a device the rows are compiled one by one"
            )
            return
        shares = [rows[share :: self._options.cores] for share in range(self._options.cores)]
        work = [(group, list(found)) for share in shares for group, found in groupby(share, _group) if share]

        def one(of: tuple[str, list[dict[str, Any]]]) -> Ended:
            arguments = [
                *("--do", "rows", "--only", of[0]),
                *(word for row in of[1] for word in ("--row", str(row["number"]))),
            ]
            return self._follow(arguments, lambda event: None, limit=most, pretend=target)

        with ThreadPoolExecutor(self._options.cores) as pool:
            yield from pool.map(one, work)

    def _correctness(self, most: float) -> Iterator[Ended]:
        """One process per kernel, some side by side; whatever happens to it is the verdict on its kernel."""
        end = time.monotonic() + most

        def one(kernel: dict[str, Any]) -> Ended | None:
            limit = min(self._options.kernel_limit, end - time.monotonic())
            if limit < _LEAST:
                why = "the share of the budget for correctness was used up"
                self._verdict(kernel, f"{gpu_record.UNCHECKED}: {why}")
                self._record.add("not_run", what=f"correctness of {kernel['kernel']}", why=why)
                return None
            heard: list[dict[str, Any]] = []
            arguments = ["--do", "correctness", "--kernel", kernel["kernel"]]
            arguments += ["--seeds", str(self._options.seeds), *self._declared()]
            extra = {"TRITON_INTERPRET": "1"} if self._options.pretend else {}
            ended = self._follow(arguments, heard.append, limit=limit, extra=extra)
            if not heard:
                late = ended.how == "late"
                known = gpu_record.UNCHECKED if late else "is not known to be right"
                self._verdict(kernel, f"{known}: {ended.words}")
                return ended
            found = heard[0]["kernel"]
            first = found["failed"][0] if found["failed"] else None
            words = (
                "right"
                if first is None
                else f"is wrong: {first['case']}: {'; '.join(first['faults'])[-300:]}"
            )
            self._verdict(found, words)
            return ended

        with ThreadPoolExecutor(min(_AT_ONCE, self._options.cores)) as pool:
            kernels = sorted(self._plan["kernels"], key=lambda kernel: self._rank(kernel["kernel"]))
            yield from (ended for ended in pool.map(one, kernels) if ended is not None)

    def _rank(self, kernel: str) -> int:
        first = self._options.first.split(",")
        return first.index(kernel) if kernel in first else len(first)

    def _verdict(self, kernel: dict[str, Any], words: str) -> None:
        entry = {"cases": 0, "worst": 0.0, "failed": [], **kernel, "verdict": words}
        self._record.add("correctness", **entry)

    def _conformance(self, most: float) -> Iterator[Ended]:
        """The suite on the contract alone. Ended early, it still writes what it has."""
        folder = self._scratch / "conformance"
        command = [
            *(sys.executable, "-m", "sglang_platform.conformance"),
            *("--platform", self._plan["platform"]),
            *(word for level in self._options.levels.split(",") for word in ("--level", level)),
            *("--report", str(folder)),
        ]
        ended = self._process(command, lambda event: None, limit=most)
        report = folder / "report.json"
        if report.exists():
            outcomes = json.loads(report.read_text())["outcomes"]
            counts = Counter(outcome["status"] for outcome in outcomes)
            self._record.found["conformance"] = {
                "levels": self._options.levels,
                "counts": dict(counts),
                "failed": [
                    {"check": one["id"], "failure": one["failure"]}
                    for one in outcomes
                    if one["status"] == "failed"
                ],
            }
            self._record.found["faults"] += [one["id"] for one in outcomes if one["status"] == "failed"]
        yield ended

    def _rows(self, most: float) -> Iterator[Ended]:
        """A process per group, a new one after each that ended badly, without the row that did it."""
        wrong = self._record.wrong()
        for group, batch in _most_valuable_first(self._plan["rows"]):
            rows: deque[dict[str, Any]] = deque()
            for row in batch:
                reason = next((wrong[check] for check in row["checks"] if check in wrong), None)
                if reason is None:
                    rows.append(row)
                else:
                    self._put_row(row, skipped=reason)
            while rows and self._left() >= _LEAST:
                yield self._some_rows(group, rows)
            for row in rows:
                self._record.add("not_run", what=_words(row), why=self._used_up())

    def _some_rows(self, group: str, rows: deque[dict[str, Any]]) -> Ended:
        """As many of `rows` as one process manages; what it has done is taken out of them, the guilty one too."""
        by_number = {row["number"]: row for row in rows}
        running: list[dict[str, Any]] = []

        def heard(event: dict[str, Any]) -> None:
            if "begun" in event:
                running[:] = [by_number[event["begun"]["number"]]]
                return
            row = by_number[(event.get("row") or event["failed"])["number"]]
            running.clear()
            rows.remove(row)
            if "row" in event:
                self._record.add("rows", **event["row"])
            else:
                self._fail(row, f"raised {event['failed']['why']}")

        arguments = ["--do", "rows", "--only", group]
        arguments += [word for row in rows for word in ("--row", str(row["number"]))]
        ended = self._follow(arguments, heard, limit=self._left(), silence=self._options.row_limit)
        if ended.how == "late":
            return ended
        if running:
            rows.remove(running[0])
            self._fail(running[0], ended.words)
        elif len(rows) == len(by_number):
            while rows:  # none was even begun: the group cannot be imported, say
                self._fail(rows.popleft(), ended.words)
        return ended

    def _racecheck(self, most: float) -> Iterator[Ended]:
        tool = shutil.which("compute-sanitizer")
        if tool is None or self._options.pretend:
            why = "no device" if self._options.pretend else "compute-sanitizer is not installed"
            self._record.add("not_run", what="racecheck", why=why)
            return
        for kernel in ("kv_move", "top_slots", "extend_slots", "decode_slots"):
            command = [tool, "--tool", "racecheck", "--error-exitcode", "9", sys.executable, _PROGRAM]
            command += ["--do", "correctness", "--seeds", "1", "--kernel", kernel, *self._platform()]
            yield self._process(command, lambda event: None, limit=most)

    # Processes

    def _follow(
        self,
        arguments: list[str],
        heard: Callable[[dict[str, Any]], None],
        *,
        limit: float,
        silence: float | None = None,
        extra: dict[str, str] | None = None,
        pretend: str | None = None,
    ) -> Ended:
        """`gpu.py` with `arguments`, for the architecture `pretend` without a device."""
        target = pretend or self._options.pretend
        journal = self._scratch / f"{next(self._numbers)}.jsonl"
        command = [sys.executable, _PROGRAM, *arguments, "--journal", str(journal), *self._platform()]
        command += ["--pretend", target] if target else []
        command += ["--quick"] if self._options.quick else []  # it numbers the rows
        return self._process(command, heard, limit=limit, silence=silence, extra=extra, journal=journal)

    def _process(
        self,
        command: list[str],
        heard: Callable[[dict[str, Any]], None],
        *,
        limit: float,
        silence: float | None = None,
        extra: dict[str, str] | None = None,
        journal: Path | None = None,
    ) -> Ended:
        number = next(self._numbers)
        limit = min(limit, max(self._left(), _LEAST))
        return follow(
            command,
            journal=journal or self._scratch / f"{number}.jsonl",
            log=self._scratch / f"{number}.log",
            environment={**self._environment, **(extra or {})},
            limit=limit,
            silence=limit if silence is None else silence,
            heard=heard,
            stopped=lambda: self._stopped,
        )

    def _platform(self) -> list[str]:
        return ["--platform", self._options.platform] if self._options.platform else []

    def _declared(self) -> list[str]:
        return ["--declared", self._options.declared] if self._options.declared else []

    def _groups(self) -> list[str]:
        return [*(["--only", self._options.groups] if self._options.groups else []), *self._declared()]

    def _left(self) -> float:
        return self._end - time.monotonic()

    def _used_up(self) -> str:
        return f"the budget of {self._options.budget:g} s was used up"

    def _fail(self, row: dict[str, Any], why: str) -> None:
        self._record.found["faults"].append(f"{_words(row)}: {why}")
        self._put_row(row, skipped=why)

    def _put_row(self, row: dict[str, Any], skipped: str) -> None:
        nothing = {"bound": None, "bytes": None, "flops": None, "seconds": {}, "missing": {}}
        self._record.add("rows", **row, **nothing, skipped=skipped)


def _group(row: dict[str, Any]) -> str:
    return str(row["group"])


def _words(row: dict[str, Any]) -> str:
    return " ".join([row["name"], *(f"{key}={value}" for key, value in row["case"].items())])


def _most_valuable_first(rows: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Batches of one group: first one row of each name in every group, then the others."""
    first: dict[str, dict[str, Any]] = {}
    for row in rows:
        first.setdefault(row["name"], row)
    others = [row for row in rows if row is not first[row["name"]]]
    for part in (first.values(), others):
        for group, batch in groupby(part, _group):
            yield group, list(batch)
