"""Runs checks on a platform: which, in what order, in processes that may die, and what became of each."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sglang_platform.conformance.case_ids import full_id
from sglang_platform.conformance.check import Check, registered
from sglang_platform.conformance.description import nobody
from sglang_platform.conformance.expected import VendorFile
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.outcome import Outcome, case_text, failed_with
from sglang_platform.conformance.seeds import seed_of
from sglang_platform.core.spelling import nearest

__all__ = ["Runner", "Selection", "UnknownCheck"]

_START_SECONDS = 180
_LAST_LINES = 30


class UnknownCheck(ValueError):
    """A check id that does not exist; the text offers the nearest."""


@dataclass(frozen=True)
class Selection:
    """What to run on what. `platform` is an entry-point name, or `name=pkg.mod:Class` for one without a package."""

    platform: str
    host: str = "none"
    levels: tuple[Level, ...] = ()
    checks: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    """Those to judge by; empty: what the platform claims. Their checks run though a level runs only on request."""

    seed: int = 0
    vendor_file: VendorFile = field(default_factory=VendorFile)
    patience: float = 1.0
    """The checks' time limits are multiplied by it."""

    environment: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.platform.partition("=")[0]

    @property
    def location(self) -> str | None:
        return self.platform.partition("=")[2] or None

    @property
    def whole(self) -> bool:
        """Whether no check was left out by name or by level."""
        return not self.checks and not self.levels

    def chosen(self, required: Collection[str] = ()) -> list[Check]:
        """The checks to run, in order: all but those of levels on request, and the `required` ones of these; or those
        that are named. Raises UnknownCheck."""
        known = registered()
        for name in self.checks:
            if name not in known:
                raise UnknownCheck(unknown_check(name, known))
        return [one for one in known.values() if self._is_chosen(one, required)]

    def _is_chosen(self, check: Check, required: Collection[str]) -> bool:
        if self.whole:
            return check.id in required or not check.level.on_request
        if self.checks and check.id not in self.checks:
            return False
        return check.level in self.levels if self.levels else True

    def host_of(self, check: Check) -> str | None:
        """Where the check runs: in SGLang, where that is asked and it can; None where it cannot run at all."""
        if self.host in check.hosts:
            return self.host
        return "none" if "none" in check.hosts else None

    def rerun(self, check: Check) -> str:
        """The command that runs this check alone, the same way."""
        words = ["sglang-platform", "conformance", "--platform", self.platform]
        words += ["--host", self.host] if self.host != "none" else []
        return shlex.join([*words, "--check", check.id, "--seed", str(self.seed)])


def unknown_check(name: str, known: Iterable[str]) -> str:
    """What is said of a check id that does not exist."""
    meant = nearest(name, list(known))
    return f"there is no check {name!r}" + (f"; did you mean {meant!r}?" if meant else "")


class Runner:
    """Runs a selection. `on_start(check)` and `on_outcome(outcome)` are called as it goes."""

    def __init__(
        self,
        selection: Selection,
        *,
        on_start: Callable[[Check], None] = lambda check: None,
        on_case: Callable[[Check, dict[str, Any] | None], None] = lambda check, case: None,
        on_outcome: Callable[[Outcome], None] = lambda outcome: None,
    ) -> None:
        self.selection = selection
        self._on_start, self._on_case, self._on_outcome = on_start, on_case, on_outcome
        self._workers: dict[str, Worker] = {}
        self._level: Level | None = None
        self._on_contract: bool | None = None

    def run(self) -> list[Outcome]:
        """Every chosen check. Raises UnknownCheck."""
        try:
            return [self.run_one(check) for check in self.selection.chosen()]
        finally:
            self.close()

    def run_one(self, check: Check) -> Outcome:
        """One check. The process is kept for the next; see `close`."""
        self._on_start(check)
        started = time.perf_counter()
        seed = seed_of(self.selection.seed, check.id)
        outcome = Outcome(check.id, check.level.label, check.proves, "passed", seed=seed)
        for name, value in self._ask(check, seed).items():
            setattr(outcome, name, value)
        outcome.seconds = round(time.perf_counter() - started, 3)
        self.selection.vendor_file.judge(outcome)
        if outcome.is_bad or outcome.status == "expected_failure":
            outcome.rerun = self.selection.rerun(check)
        self._on_outcome(outcome)
        return outcome

    def describe(self) -> dict[str, Any]:
        """What the platform says of itself, asked in a process of its own: see `description.describe`."""
        worker = Worker(self.selection, self.selection.host)
        try:
            return worker.describe()
        except _WorkerEnded as ended:
            return nobody(self.selection.name, self.selection.location, f"{ended.what}\n{ended.trace}")
        finally:
            worker.close()

    def _is_on_the_hosts_classes(self) -> bool:
        """Whether the platform is one, and is not built on core; asked in SGLang, once."""
        if self._on_contract is None:
            try:
                about = self._worker("sglang").describe()
            except _WorkerEnded:
                self._end("sglang")
                return False
            self._on_contract = about["platform"]["on_contract"] is not False
        return not self._on_contract

    def close(self) -> None:
        """End the processes that ran the plugin."""
        for host in list(self._workers):
            self._end(host)

    def _worker(self, host: str) -> Worker:
        if host not in self._workers:
            self._workers[host] = Worker(self.selection, host)
        return self._workers[host]

    def _end(self, host: str) -> None:
        worker = self._workers.pop(host, None)
        if worker is not None:
            worker.close()

    def _ask(self, check: Check, seed: int) -> dict[str, Any]:
        host = self.selection.host_of(check)
        if host is None:
            return {"status": "not_run", "cause": "host", "why": "it runs with --host sglang"}
        if host != self.selection.host and check.needs != "source" and self._is_on_the_hosts_classes():
            why = "the plugin is written on SGLang's classes, and the check is about core's contract"
            return {"status": "not_applicable", "why": why}
        # A level starts in a process of its own, so that it sees nothing that an earlier one left. In SGLang it takes
        # ten seconds or more to start, so all levels share one there.
        if self._level is not check.level:
            self._end("none")
            self._level = check.level
        try:
            answer = self._worker(host).ask(check, seed, lambda case: self._on_case(check, case))
        except _WorkerEnded as ended:
            self._end(host)
            answer = ended.outcome(check)
        return {**answer, "host": host}


@dataclass
class _Seen:
    """What a worker told of the check in progress: its present case, how many there were, and those that failed."""

    case: dict[str, Any] | None = None
    name: str = ""
    ran: int = 0
    failing: list[dict[str, Any]] = field(default_factory=list)


class _WorkerEnded(Exception):
    def __init__(self, failure: str, what: str, seen: _Seen, trace: str) -> None:
        self.failure, self.what, self.trace = failure, what, trace
        self.case, self.name, self.ran, self.failing = seen.case, seen.name, max(1, seen.ran), seen.failing

    def outcome(self, check: Check) -> dict[str, Any]:
        """Of the check in progress: the cases that had failed, and the one in which the process ended."""
        last = {"id": full_id(check.id, self.name), "case": self.case, "failure": self.failure}
        last |= {"what": self.what, "fix": check.fix, "trace": self.trace}
        return {**failed_with([*self.failing, last]), "cases": self.ran}


class Worker:
    """One process of `sglang_platform.conformance.worker`."""

    def __init__(self, selection: Selection, host: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="sglang-platform-conformance-")
        self._log = Path(self._folder.name) / "output"
        self._seen = _Seen()
        self._patience = selection.patience
        self._started = False
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sglang_platform.conformance.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **selection.environment},
                start_new_session=True,  # so that what a plugin started can be ended with it
            )
        self._events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self._send(
            {
                "name": selection.name,
                "host": host,
                "location": selection.location,
                "written": selection.vendor_file.tables,
                "scratch": self._folder.name,
            }
        )

    def ask(
        self, check: Check, seed: int, on_case: Callable[[dict[str, Any] | None], None]
    ) -> dict[str, Any]:
        """Run one check. Raises _WorkerEnded where the process died or had to be stopped."""
        self._seen = seen = _Seen()
        self._wait_until_ready()
        self._send({"check": check.id, "module": check.function.__module__, "seed": seed})
        limit = check.seconds * self._patience
        until = time.monotonic() + limit
        while True:
            event = self._next(until - time.monotonic(), f"{limit:g} s")
            if "outcome" in event:
                return event["outcome"]  # type: ignore[no-any-return]
            if "case" in event:
                seen.case, seen.name, seen.ran = event["case"], event["id"], seen.ran + 1
                on_case(seen.case)
            if "failing" in event:
                seen.failing.append(event["failing"])

    def describe(self) -> dict[str, Any]:
        """Ask what the platform says of itself. Raises _WorkerEnded."""
        self._wait_until_ready()
        self._send({"describe": True})
        return self._next(_START_SECONDS, f"{_START_SECONDS} s")["description"]  # type: ignore[no-any-return]

    def _wait_until_ready(self) -> None:
        if not self._started:
            self._next(_START_SECONDS, f"{_START_SECONDS} s of start-up")
            self._started = True

    def close(self) -> None:
        """Stop the process, kindly first: it may hold an engine."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(20 if self._process.poll() is None else 0)
        self._kill()
        self._folder.cleanup()

    def _next(self, seconds: float, limit: str) -> dict[str, Any]:
        try:
            event = self._events.get(timeout=max(0.0, seconds))
        except queue.Empty:
            self._process.send_signal(signal.SIGUSR1)  # it writes where it is
            time.sleep(0.5)
            self._kill()
            where = f", in the case {case_text(self._seen.case)}" if self._seen.case else ""
            raise _WorkerEnded(
                "timeout", f"it did not come back within {limit}{where}", self._seen, self.tail()
            ) from None
        if event is None:
            code = self._process.wait(10)
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
            where = f" in the case {case_text(self._seen.case)}" if self._seen.case else ""
            raise _WorkerEnded("crash", f"the process {how}{where}", self._seen, self.tail())
        return event

    def tail(self) -> str:
        """The last lines that the process printed."""
        lines = self._log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-_LAST_LINES:])

    def _kill(self) -> None:
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

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._events.put(json.loads(line))
        self._events.put(None)


def bad(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Those that keep the run from being green."""
    return [outcome for outcome in outcomes if outcome.is_bad]
