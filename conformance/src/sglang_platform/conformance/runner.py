"""Runs checks on a platform: in what process, what the start of it means for them, and what became of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from sglang_platform.conformance.case_ids import parted
from sglang_platform.conformance.check import CREATED, Check, registered
from sglang_platform.conformance.description import nobody
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.outcome import Outcome
from sglang_platform.conformance.process import Worker, WorkerEnded
from sglang_platform.conformance.seeds import seed_of
from sglang_platform.conformance.selection import Selection, UnknownCheck
from sglang_platform.core.discovery.groups import OWN_PLUGIN
from sglang_platform.core.discovery.settings import PLUGINS_VARIABLE

__all__ = ["Runner", "Selection", "UnknownCheck"]


_DEPENDS = (
    "depends on earlier calls: keep no table, buffer or epsilon of a call, or key it by all that it needs"
)


class _Fields(dict[str, Any]):
    """Those of a case; one that it lacks, as where the process died before the first, stands for any."""

    def __missing__(self, name: str) -> str:
        return "*"


class Runner:
    """Runs a selection. `on_start(check)`, `on_case`, `on_outcome(outcome)` and `on_building(words)` are called as it
    goes."""

    def __init__(
        self,
        selection: Selection,
        *,
        on_start: Callable[[Check], None] = lambda check: None,
        on_case: Callable[[Check, dict[str, Any] | None], None] = lambda check, case: None,
        on_outcome: Callable[[Outcome], None] = lambda outcome: None,
        on_building: Callable[[str], None] = lambda what: None,
    ) -> None:
        self.selection = selection
        self._on_start, self._on_case, self._on_outcome = on_start, on_case, on_outcome
        self._on_building = on_building
        self._workers: dict[str, Worker] = {}
        self._level: Level | None = None
        self._on_contract: bool | None = None
        self._broken: dict[str, WorkerEnded] = {}
        """By host: how a process ended before any check began, which every further one would do as well."""

        self._told: dict[str, str] = {}
        """By host: the check that tells it."""

        self._broken_parts: dict[str, str] = {}
        """Parts that were found wrong (`Check.founds`), and the check that tells it."""

        self.left_out: list[dict[str, Any]] = []
        """General plugins of other distributions that keep the platform from being made, and why."""

        self._kept: list[str] | None = None
        """The general plugins that run, where some are left out."""

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
        answer, names = self._ask(check, seed)
        call = answer.pop("call", None)
        for name, value in answer.items():
            setattr(outcome, name, value)
        outcome.seconds = round(time.perf_counter() - started, 3)
        self.selection.judge(check, outcome, names)
        if call is not None and outcome.status == "failed":
            self._make_again_alone(check, outcome, call)
        if outcome.is_bad or outcome.status in ("expected_failure", "suite_failed"):
            outcome.rerun, outcome.source = self.selection.rerun(check), check.source
        self.learn(check, outcome)
        self._on_outcome(outcome)
        return outcome

    def list_cases(self, checks: Sequence[Check]) -> dict[str, list[str]]:
        """The names of the cases of each check, by its id, in processes of their own. Without those of checks that have
        none, that have nothing to judge here, or whose cases cannot be made: to run these tells why."""
        found: dict[str, list[str]] = {}
        for host in ("none", "sglang"):
            mine = [one for one in checks if one.cases is not None and self.selection.host_of(one) == host]
            if mine and host not in self._broken:
                worker = self._started(host)
                found |= worker.list_cases({one: seed_of(self.selection.seed, one.id) for one in mine})
                worker.close()
        return found

    def learn(self, check: Check, outcome: Outcome) -> None:
        """Where a check that others stand on failed, these are blocked by it."""
        if check.founds is None or outcome.status != "failed":
            return
        for one in outcome.failing:
            if one["waived"] is None:
                part = check.founds.format_map(_Fields(one["case"] or {}))
                self._broken_parts.setdefault(part, check.id)

    def describe(self) -> dict[str, Any]:
        """What the platform says of itself, asked in a process of its own: see `description.describe`. What it builds
        at its first start is built here. A broken plugin of another distribution is found, and left out from now on."""
        while True:
            worker = self._started(self.selection.host)
            try:
                told = worker.describe()
            except WorkerEnded as ended:
                others = [
                    one
                    for one in worker.plugins
                    if not one["own"] and one["name"] not in self._names_left_out()
                ]
                if others and self._starts_without(worker.plugins, others, ended):
                    continue
                self._broken[self.selection.host] = ended
                return nobody(self.selection.name, self.selection.location, f"{ended.what}\n{ended.trace}")
            finally:
                worker.close()
            foreign = told["foreign"]
            if foreign is None or foreign["name"] in self._names_left_out():
                if self.selection.host == "sglang":
                    self._on_contract = told["description"]["platform"]["on_contract"] is not False
                return told["description"]  # type: ignore[no-any-return]
            self._leave_out(worker.plugins, [foreign])

    def _starts_without(
        self, plugins: list[dict[str, Any]], others: list[dict[str, Any]], ended: WorkerEnded
    ) -> bool:
        """Whether the platform is made where these plugins of others do not run; then they are left out."""
        before = self._kept, list(self.left_out)
        why = f"with {'it' if len(others) == 1 else 'one of these'}, {ended.what}"
        self._leave_out(plugins, [{**one, "why": why} for one in others])
        worker = self._started(self.selection.host)
        try:
            worker.describe()
            return True
        except WorkerEnded:
            self._kept, self.left_out = before
            return False
        finally:
            worker.close()

    def _leave_out(self, plugins: list[dict[str, Any]], those: list[dict[str, Any]]) -> None:
        self.left_out += [{name: one[name] for name in ("name", "distribution", "why")} for one in those]
        self._kept = [one["name"] for one in plugins if one["name"] not in self._names_left_out()]

    def _names_left_out(self) -> set[str]:
        return {one["name"] for one in self.left_out}

    def _is_on_the_hosts_classes(self) -> bool:
        """Whether the platform is one, and is not built on core; asked in SGLang, once."""
        if self._on_contract is None:
            if "sglang" in self._broken:
                return False
            try:
                about = self._worker("sglang").describe()["description"]
            except WorkerEnded as ended:
                self._end("sglang")
                self._broken["sglang"] = ended
                return False
            self._on_contract = about["platform"]["on_contract"] is not False
        return not self._on_contract

    def close(self, *, kindly: bool = True) -> None:
        """End the processes that ran the plugin; at once unless kindly."""
        for host in list(self._workers):
            self._end(host, kindly=kindly)

    def _started(self, host: str) -> Worker:
        variables = {}
        if self._kept is not None:
            # The host holds platforms to the same list; one without a package is installed there alone.
            installed = host == "sglang" or self.selection.location is None
            names = [OWN_PLUGIN, *([self.selection.name] if installed else []), *self._kept]
            variables = {PLUGINS_VARIABLE: ",".join(dict.fromkeys(names))}
        return Worker(
            self.selection,
            host,
            starts=not self._broken,
            environment=variables,
            on_building=self._on_building,
        )

    def _worker(self, host: str) -> Worker:
        if host not in self._workers:
            self._workers[host] = self._started(host)
        return self._workers[host]

    def _end(self, host: str, *, kindly: bool = True) -> None:
        worker = self._workers.pop(host, None)
        if worker is not None:
            worker.close(kindly=kindly)

    def _ask(self, check: Check, seed: int) -> tuple[dict[str, Any], Sequence[str]]:
        """The outcome's fields, and the names of the cases that were run."""
        host = self.selection.host_of(check)
        if host is None:
            return {"status": "not_run", "cause": "host", "why": "it runs with --host sglang"}, ()
        if host != self.selection.host and check.needs != "source" and self._is_on_the_hosts_classes():
            why = "the plugin is written on SGLang's classes, and the check is about core's contract"
            return {"status": "not_applicable", "why": why}, ()
        broken = self._broken.get(host)
        if broken is not None and self._needs_start(check, broken):
            return {**self._no_start(check, host, broken), "host": host}, ()
        # A level starts in a process of its own, so that it sees nothing that an earlier one left. In SGLang it takes
        # ten seconds or more to start, so all levels share one there.
        if self._level is not check.level:
            self._end("none")
            self._level = check.level
        names: Sequence[str] = ()
        try:
            answer, names = self._worker(host).ask(
                check,
                seed,
                lambda case: self._on_case(check, case),
                cases=self.selection.cases_of(check),
                first_only=self.selection.first_only,
                broken={part: told for part, told in self._broken_parts.items() if told != check.id},
            )
        except WorkerEnded as ended:
            self._end(host)
            if ended.starting:
                self._broken[host] = ended
                answer = self._no_start(check, host, ended)
            else:
                answer, names = ended.outcome(check), ended.seen.names
        return {**answer, "host": host}, names

    def _make_again_alone(self, check: Check, outcome: Outcome, call: int) -> None:
        """Where a kernel fails that others stand on, make the call that failed first in a fresh process, which is then
        kept. Where it passes there, the outcome says so: the check that would name the cause is blocked."""
        first, host = outcome.failing[0], self.selection.host_of(check)
        if check.level is not Level.KERNELS or check.founds is None or first["waived"] or host is None:
            return
        self._end(host)
        name = parted(first["id"])[1]
        cases = () if name is None else (name,)
        try:
            alone, _ = self._worker(host).ask(check, outcome.seed, lambda case: None, cases=cases, call=call)
        except WorkerEnded:
            self._end(host)
            return
        if alone["status"] == "passed":
            part = check.founds.format_map(_Fields(first["case"] or {}))
            first["what"] = f"passes alone, in a fresh process; after other calls: {first['what']}"
            first["fix"] = f"{part} {_DEPENDS}"
            outcome.what, outcome.fix = first["what"], first["fix"]

    def _needs_start(self, check: Check, broken: WorkerEnded) -> bool:
        """Whether it needs what did not start: the platform, or already the process."""
        return check.needs != "source" or check.id == CREATED or not broken.imported

    def _no_start(self, check: Check, host: str, broken: WorkerEnded) -> dict[str, Any]:
        """Told once, by the check of the platform's creation, or where that is not run by the first; the others are
        blocked by it."""
        if host not in self._told:
            chosen = {one.id for one in self.selection.chosen()}
            its_host = self.selection.host_of(registered()[CREATED])
            # A platform that starts nowhere is told once, whatever else it would be started in.
            tells = CREATED in chosen and (its_host == host or its_host in self._broken)
            self._told[host] = CREATED if tells else next(iter(self._told.values()), check.id)
        if self._told[host] == check.id:
            return broken.outcome(check)
        return {"status": "blocked", "why": f"the platform does not start: see {self._told[host]}"}
