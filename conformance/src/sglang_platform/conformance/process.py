"""One process that runs the plugin's code, from its owner's side: asked, watched, ended with all that it started."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sglang_platform.conformance import guard
from sglang_platform.conformance.blame import place_in_text
from sglang_platform.conformance.case_ids import full_id
from sglang_platform.conformance.check import Check
from sglang_platform.conformance.outcome import case_text, failed_with
from sglang_platform.conformance.probes.fresh import how_it_ended
from sglang_platform.conformance.selection import Selection
from sglang_platform.conformance.tiers import TIMES

__all__ = ["START_SECONDS", "Worker", "WorkerEnded"]

START_SECONDS = 180
"""For the suite's own imports, and again for the platform to be made. What a compiler takes is not counted."""

_BUILD_SECONDS = 3600
_PARTS_SECONDS = 60
_LOOK_EVERY = 0.5
_KIND_SECONDS = 20
_BUSY = 0.3
"""Share of its time that a process waits for a processor on a machine which is too busy for it."""
_TIMES_LONGER = 2.0
"""How often its time limit a process is given again, at most, for waiting for a processor that others had."""
_LAST_LINES = 30

_COMPILER = re.compile(
    r"(ninja|cmake|cc1|c\+\+|g\+\+|clang|ld($|\.)|nvcc|cicc|cudafe|ptxas|hipcc|rustc|cargo|icpx|collect2)"
)
"""Beginnings of names of programs that run while native code is built."""


@dataclass
class _Seen:
    """What a worker told of the check in progress: its present case, how many there were, and those that failed."""

    case: dict[str, Any] | None = None
    name: str = ""
    fix: str | None = None
    names: list[str] = field(default_factory=list)
    failing: list[dict[str, Any]] = field(default_factory=list)


class WorkerEnded(Exception):
    """It died or had to be stopped. `starting`: before the check's own clock began, so no check is to blame."""

    def __init__(
        self,
        failure: str,
        what: str,
        seen: _Seen,
        trace: str,
        *,
        starting: bool,
        alive: bool,
        fix: str | None = None,
    ) -> None:
        super().__init__(what)
        self._fix = fix
        self.failure, self.what, self.seen, self.trace = failure, what, seen, trace
        self.starting, self.imported = starting, alive

    def outcome(self, check: Check) -> dict[str, Any]:
        """Of the check in progress: the cases that had failed, and the one in which the process ended."""
        last = {"id": full_id(check.id, self.seen.name), "case": self.seen.case, "failure": self.failure}
        last |= {"what": self.what, "fix": self._fix or self.seen.fix or check.fix, "trace": self.trace}
        last["place"] = place_in_text(self.trace)
        return {**failed_with([*self.seen.failing, last]), "cases": max(1, len(self.seen.names))}


class Worker:
    """One process of `sglang_platform.conformance.worker`, under a guard that ends all it started when it ends, or when
    this process does."""

    def __init__(
        self,
        selection: Selection,
        host: str,
        *,
        starts: bool = True,
        environment: dict[str, str] | None = None,
        on_building: Callable[[str], None] = lambda what: None,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="sglang-platform-conformance-")
        self._log = Path(self._folder.name) / "output"
        self._seen = _Seen()
        self._patience, self._on_building = selection.patience, on_building
        self._tier = TIMES if selection.thorough else 1.0
        self._ready = False
        self.plugins: list[dict[str, Any]] = []
        """The general plugins installed where it runs: name, distribution, whether it is the platform's own."""

        lifeline, self._lifeline = os.pipe()
        answers, theirs = os.pipe()
        command = [sys.executable, "-m", "sglang_platform.conformance.worker", str(theirs)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", guard.__file__, str(lifeline), *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **selection.environment, **(environment or {})},
                pass_fds=(lifeline, theirs),
                start_new_session=True,  # Ctrl-C reaches the owner alone, which ends it in order
            )
        os.close(lifeline)
        os.close(theirs)
        self._events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._read, args=(answers,), daemon=True).start()
        self._send(
            {
                "name": selection.name,
                "host": host,
                "location": selection.location,
                "written": selection.vendor_file.tables,
                "scratch": self._folder.name,
                "thorough": selection.thorough,
                "models": list(selection.models),
                "starts": starts,
            }
        )

    def ask(
        self,
        check: Check,
        seed: int,
        on_case: Callable[[dict[str, Any] | None], None],
        *,
        cases: tuple[str, ...] = (),
        first_only: bool = False,
        call: int | None = None,
        broken: Mapping[str, str] | None = None,
    ) -> tuple[dict[str, Any], list[str]]:
        """Run one check: its outcome, and the names of the cases that were run. Raises WorkerEnded where the process
        died or had to be stopped."""
        self._seen = seen = _Seen()
        self._wait_until_ready()
        wanted = {"check": check.id, "module": check.function.__module__, "seed": seed, "cases": cases}
        self._send({**wanted, "first_only": first_only, "call": call, "broken": dict(broken or {})})
        start = START_SECONDS * max(1.0, self._patience)
        self._next(start, f"{start:g} s while the platform was made", starting=True)
        limit = check.seconds * self._patience * self._tier
        until = time.monotonic() + limit
        self._begin(limit)
        while True:
            left = until - time.monotonic()
            event = self._next(left, f"{limit:g} s")
            until += event.pop("not_counted", 0.0)
            if "outcome" in event:
                return event["outcome"], seen.names
            if "case" in event:
                seen.case, seen.name, seen.fix = event["case"], event["id"], event["fix"]
                seen.names.append(event["id"])
                on_case(seen.case)
            if "failing" in event:
                seen.failing.append(event["failing"])

    def describe(self) -> dict[str, Any]:
        """What the platform says of itself, and what kept it from being made, if that is another's plugin. It and its
        parts are made for it, so that what they build is built now. Raises WorkerEnded where it dies before it says."""
        self._wait_until_ready()
        self._send({"describe": True})
        limit = START_SECONDS * max(1.0, self._patience)
        told = self._next(limit, f"{limit:g} s while the platform was made", starting=True)
        with contextlib.suppress(WorkerEnded):  # the check of the part tells
            self._next(_PARTS_SECONDS * self._patience, "", starting=True)
        return told

    def list_cases(self, seeds: Mapping[Check, int]) -> dict[str, list[str]]:
        """The names of the cases of each check, by its id, as far as the process comes."""
        found: dict[str, list[str]] = {}
        with contextlib.suppress(WorkerEnded):
            self._wait_until_ready()
            for check, seed in seeds.items():
                self._send({"list": check.id, "module": check.function.__module__, "seed": seed})
                limit = START_SECONDS * max(1.0, self._patience)
                found[check.id] = self._next(limit, f"{limit:g} s", starting=True)["cases"]
        return found

    def _wait_until_ready(self) -> None:
        if not self._ready:
            limit = START_SECONDS * max(1.0, self._patience)
            self.plugins = self._next(limit, f"{limit:g} s of start-up", starting=True)["plugins"]
            self._ready = True

    def close(self, *, kindly: bool = True) -> None:
        """Stop the process, kindly first, since it may hold an engine; then all that it started."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        if kindly:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_KIND_SECONDS if self._process.poll() is None else 0)
        self._kill()
        self._folder.cleanup()

    def _next(self, seconds: float, limit: str, *, starting: bool = False) -> dict[str, Any]:
        """The next event; `not_counted` is told with it: seconds in which a compiler ran, and those without a processor
        that the time limit was extended by."""
        if starting:
            self._begin(seconds)
        until, built, starved = time.monotonic() + seconds, 0.0, 0.0
        while True:
            looked = time.monotonic()
            try:
                event = self._events.get(timeout=max(0.0, min(_LOOK_EVERY, until - looked)))
            except queue.Empty:
                compiler = self._compiler()
                if compiler is not None and built < _BUILD_SECONDS:
                    built += time.monotonic() - looked
                    until += time.monotonic() - looked
                    self._on_building(f"building ({compiler}, {built:.0f} s)")
                if time.monotonic() < until:
                    continue
                if (more := self._waited_more()) >= _LOOK_EVERY:
                    starved += more
                    until += more
                    continue
                raise self._stopped(limit, starting) from None
            if event is None:
                raise self._died(starting)
            return {**event, "not_counted": built + starved} if built + starved else event

    def _compiler(self) -> str | None:
        """A program among the worker's descendants that builds native code."""
        names = guard.descendants(self._process.pid).values()
        return next(filter(_COMPILER.match, names), None)

    def _begin(self, limit: float) -> None:
        """A time limit of so many seconds begins: of the start, or of a check."""
        self._since, self._waited = time.monotonic(), self._longest_wait()
        self._given, self._most_given = 0.0, _TIMES_LONGER * limit

    def _waited_more(self) -> float:
        """Seconds since the limit began in which it had no processor, without those that were told before: it is given
        them again."""
        waited = min(self._longest_wait() - self._waited, self._most_given)
        more, self._given = waited - self._given, max(waited, self._given)
        return more

    def _stopped(self, limit: str, starting: bool) -> WorkerEnded:
        waited, passed = self._longest_wait() - self._waited, time.monotonic() - self._since
        busy = waited > _BUSY * passed
        self._process.send_signal(signal.SIGUSR1)  # it writes where it is
        time.sleep(0.5)
        self._kill()
        more = f" and {self._given:.0f} s more" if busy else ""
        what = f"it did not come back within {limit}{more}{self._where(', in the case ')}"
        if busy:
            what += f"; for {waited:.0f} s it waited for a processor that others had"
        fix = "run it again when the machine has less to do, or with --patience 10" if busy else None
        return WorkerEnded(
            "timeout", what, self._seen, self.tail(), starting=starting, alive=self._ready, fix=fix
        )

    def _longest_wait(self) -> float:
        """Seconds for which one of its threads was ready and had no processor, as Linux counts them; else 0."""
        longest = 0.0
        for pid in (self._process.pid, *guard.descendants(self._process.pid)):
            for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
                with contextlib.suppress(OSError, ValueError, IndexError):
                    longest = max(longest, int(thread.read_text().split()[1]) / 1e9)
        return longest

    def _died(self, starting: bool) -> WorkerEnded:
        how = how_it_ended(self._process.wait(30))
        how += " while the platform was made" if starting and self._ready else self._where(" in the case ")
        return WorkerEnded(
            "crash", f"the process {how}", self._seen, self.tail(), starting=starting, alive=self._ready
        )

    def _where(self, words: str) -> str:
        return f"{words}{case_text(self._seen.case)}" if self._seen.case else ""

    def tail(self) -> str:
        """The last lines that the process printed."""
        lines = self._log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-_LAST_LINES:])

    def _kill(self) -> None:
        """The guard kills everything below it when its lifeline is cut."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _send(self, body: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(body) + "\n")
            self._process.stdin.flush()
        except OSError:
            pass  # it died: reading its answer says so

    def _read(self, answers: int) -> None:
        with os.fdopen(answers, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                # The pipe is private, and a plugin that walks over all open files may write to it nevertheless.
                with contextlib.suppress(ValueError):
                    event = json.loads(line)
                    if isinstance(event, dict):
                        self._events.put(event)
        self._events.put(None)
