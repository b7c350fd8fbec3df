"""One server on the example device for half an hour under everything at once; or each of its processes killed.

`python benchmarks/soak.py --minutes 30 --clients 64`: prompts of 1 to 400 tokens, streamed and whole, with two LoRA
adapters and without, structured output, chat, samples, hostile requests, aborts, clients that leave; beside them cache
flushes, weight updates and aborts of everything. It holds that each greedy answer is that of transformers, or says
that it was aborted; that no answer is a 5xx; that in the end all slots are free, the first answers come again, and no
process and no shared memory is left. Memory of each process is drawn over time.

`--kill`: a server of two ranks is started for each of its processes, in random order; that process gets SIGKILL under
load, and all others must have ended within 15 s, with one clear message and nothing left. A run that is stopped goes
on where it was.

Both write `soak.json` or `soak_kill.json` into `--results`, and end with 1 where something does not hold.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import statistics
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from soak_asked import Model
from soak_clients import Clients, Seen
from soak_kill import kill_each
from soak_plot import draw_memory
from soak_processes import ENDING_SECONDS, LEFT_BY_SGLANG, MemoryWatch, ended, left_of
from soak_tracebacks import by_cause

from sglang_platform.conformance.host.server import ServerProcess
from sglang_platform.conformance.host.session import models_folder

START_SECONDS = 600
QUIET_SECONDS = 90.0
GROWTH = 0.15
"""Of a process's memory, from the end of the first third of the run to its end; more is a fault."""

STEADY_AFTER = 10
"""Minutes; in a shorter run memory still rises to where it stays, and its growth is no fault."""

ALL_COME_WITHIN = 2
"""Minutes, in which all of WANTED is seen on a machine that does nothing else."""

LATE_MINUTES = 10.0
"""For so long a run goes on where some of it was not seen: a machine that others keep busy answers later."""

WANTED = (
    *(
        (kind, "right")
        for kind in ("greedy", "stream", "bad", "bad token", "regex", "json", "sampled", "chat")
    ),
    *((kind, "right") for kind in ("quiet flush", "weights", "abort all")),
    ("aborted", "aborted"),
    ("left", "left"),
)
"""What a run must have had: a soak that leaves one out proves nothing of it."""

SLOTS = ("num_running_reqs", "num_queue_reqs", "num_used_tokens", "kv_used_tokens", "kv_available_tokens")
STEADY = {"input_ids": [5, 17, 99, 256, 700], "sampling_params": {"temperature": 0, "max_new_tokens": 16}}


def quiet(server: ServerProcess) -> tuple[dict[str, float], list[int]]:
    """The gauges of slots once nothing runs, the first weights are in place and the cache holds one answer; and that
    answer's tokens."""
    server.post("/abort_request", {"rid": "", "abort_all": True})
    server.post("/flush_cache", {})
    tokens = server.post("/generate", STEADY).json()[
        "output_ids"
    ]  # gauges are written while the scheduler works
    found = re.findall(r"^sglang:(\w+)\{[^}]*\} (\S+)$", server.get("/metrics").body, re.MULTILINE)
    return {name: float(value) for name, value in found if name in SLOTS}, tokens


def held(server: ServerProcess, before: dict[str, float]) -> dict[str, float]:
    """Gauges that do not come back to what they were; waits for requests whose clients left."""
    until = time.monotonic() + QUIET_SECONDS
    while True:
        now, _ = quiet(server)
        still = {name: value for name, value in now.items() if value != before[name]}
        if not still or time.monotonic() > until:
            return still
        time.sleep(1)


def growth(rows: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """For each process that lived to the end: MiB around a third of the run, and in its last tenth (medians)."""
    if len(rows) < 10:
        return {}
    tenth = max(1, len(rows) // 10)
    early, late = rows[len(rows) // 3 : len(rows) // 3 + tenth], rows[-tenth:]
    names = set.intersection(*(set(row) for row in (*early, *late))) - {"seconds"}
    medians = {
        name: [statistics.median(row[name] for row in part) for part in (early, late)]
        for name in sorted(names)
    }
    return {name: {"at a third": one, "at the end": two} for name, (one, two) in medians.items()}


def soak(minutes: float, clients: int, seed: int) -> dict[str, Any]:
    model = Model(models_folder())
    begun = time.monotonic()
    with ServerProcess("example_oot", model.arguments(), seconds=START_SECONDS) as server:
        started = time.monotonic() - begun
        before, first = quiet(server)
        watch = MemoryWatch(server)
        load = Clients(server, model, clients, seed=seed)
        until = time.monotonic() + minutes * 60
        while server.alive and time.monotonic() < until:
            time.sleep(0.5)
        while server.alive and minutes >= ALL_COME_WITHIN and time.monotonic() < until + LATE_MINUTES * 60:
            if not not_seen(load.seen):
                break
            time.sleep(0.5)
        lived = server.alive
        load.stop()
        watch.stop()
        report: dict[str, Any] = {
            "minutes": minutes,
            "minutes_in_all": round((time.monotonic() - until) / 60 + minutes, 1),
            "clients": clients,
            "seed": seed,
            "start_seconds": round(started, 1),
            "versions": {name: version(name) for name in ("sglang", "torch", "sglang-platform-example-oot")},
            "machine": {"python": platform.python_version(), "system": platform.platform()},
            "server_lived": lived,
            **_told(load.seen),
            "not_seen": not_seen(load.seen) if minutes >= ALL_COME_WITHIN else [],
            "memory": watch.rows,
            "memory_growth": growth(watch.rows),
        }
        if lived:
            update = {"model_path": str(model.checkpoints["first"]), "weight_version": "first"}
            server.post("/update_weights_from_disk", update)
            report["held"] = held(server, before)
            report["first_answer_again"] = quiet(server)[1] == first
            seconds, left = ended(server)
            report |= {"ended_within_seconds": seconds, "processes_left": list(left.values())}
        report["shared_memory_seen"] = len(watch.shared)
        report["shared_memory_left"] = left_of(watch.shared)
        said = server.output()
        report["tracebacks_of_sglang"], report["tracebacks_not_known"] = by_cause(said)
        if not lived:
            report["last_lines"] = said.splitlines()[-60:]
    return report


def not_seen(seen: Seen) -> list[str]:
    """What a run must have had and this one has not, in words."""
    found = [f"none ended so: {kind}, {how}" for kind, how in WANTED if (kind, how) not in seen.ended]
    return found if seen.adapted else [*found, "no answer came from an adapter"]


def _told(seen: Seen) -> dict[str, Any]:
    seconds = sorted(seen.seconds)
    told: dict[str, Any] = {
        "ended": {},
        "right_with_an_adapter": seen.adapted,
        "faults": seen.faults,
        "slowest_weight_update": round(seen.slowest, 1),
    }
    for (kind, ending), count in sorted(seen.ended.items()):
        told["ended"].setdefault(kind, {})[ending] = count
    if seconds:
        told["answers"] = len(seconds)
        told["answer_seconds"] = {
            "median": round(statistics.median(seconds), 2),
            "99 of 100": round(seconds[int(len(seconds) * 0.99)], 2),
            "longest": round(seconds[-1], 2),
        }
    return told


def faults(report: dict[str, Any]) -> list[str]:
    """What does not hold, in words."""
    found = list(report["faults"])
    found += [f"a traceback that is not known: {one}" for one in report["tracebacks_not_known"]]
    if not report["server_lived"]:
        return [*found, "the server ended"]
    found += report["not_seen"]
    if report["held"]:
        found.append(f"once quiet the server still holds {report['held']}")
    if not report["first_answer_again"]:
        found.append("the first answer does not come again")
    if report["ended_within_seconds"] is None:
        found.append(f"{ENDING_SECONDS:.0f} s after SIGTERM there are still {report['processes_left']}")
    if ours := [one for one in report["shared_memory_left"] if not one.startswith(LEFT_BY_SGLANG)]:
        found.append(f"shared memory is left: {ours}")
    if report["minutes"] >= STEADY_AFTER:
        for name, (early, late) in ((n, r.values()) for n, r in report["memory_growth"].items()):
            if late > early * (1 + GROWTH):
                found.append(f"{name} grew from {early:.0f} to {late:.0f} MiB")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kill", action="store_true", help="kill each process of a server instead")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    options.results.mkdir(parents=True, exist_ok=True)
    if options.kill:
        report = kill_each(models_folder(), options.seed, options.results / "soak_kill.json")
        wrong = [f"{one['killed']}: {fault}" for one in report["runs"] for fault in one["faults"]]
    else:
        report = soak(options.minutes, options.clients, options.seed)
        draw_memory(report, options.results / "soak.svg")
        (options.results / "soak.json").write_text(_compact(report) + "\n")
        wrong = faults(report)
        print(json.dumps({name: value for name, value in report.items() if name != "memory"}, indent=1))
    print(*(wrong or ["all holds"]), sep="\n")
    return int(bool(wrong))


def _compact(report: dict[str, Any]) -> str:
    """One line for each row of memory."""
    rows = ",\n  ".join(json.dumps(row) for row in report["memory"])
    rest = json.dumps({name: value for name, value in report.items() if name != "memory"}, indent=1)
    return f'{rest[:-2]},\n "memory": [\n  {rows}\n ]\n}}'


if __name__ == "__main__":
    sys.exit(main())
