"""Each process of a server of two ranks is killed once, under load: what becomes of the others, and what is said."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import time
from pathlib import Path
from typing import Any

from soak_asked import Model
from soak_clients import Clients
from soak_processes import LEFT_BY_SGLANG, MemoryWatch, left_of, processes_of

from sglang_platform.conformance.host.server import ServerProcess

__all__ = ["kill_each"]

LIMIT_SECONDS = 15.0
START_SECONDS = 600
LOAD_SECONDS = 6.0
CLIENTS = 8


def kill_each(models: Path, seed: int, journal: Path) -> dict[str, Any]:
    """One server for each process that the first one shows, in random order. What `journal` already has is not done
    again; it is written after each."""
    model, source = Model(models), random.Random(seed)
    arguments = {**model.arguments(), "tp_size": 2, "enable_lora": False, "lora_paths": None}
    arguments |= {"max_loras_per_batch": None, "max_lora_rank": None, "cuda_graph_bs_decode": [1, 2, 4, 8]}
    report: dict[str, Any] = (
        json.loads(journal.read_text()) if journal.exists() else {"order": None, "runs": []}
    )
    report["limit_seconds"] = LIMIT_SECONDS
    while report["order"] is None or len(report["runs"]) < len(report["order"]):
        with ServerProcess(
            "example_oot", arguments, environment={"OMP_NUM_THREADS": "1"}, seconds=START_SECONDS
        ) as server:
            names = _numbered(processes_of(server))
            if report["order"] is None:
                report["order"] = source.sample(sorted(names), len(names))
            report["runs"].append(_killed(server, model, report["order"][len(report["runs"])], names))
        journal.write_text(json.dumps(report, indent=1) + "\n")
        print(report["runs"][-1], flush=True)
    return report


def _numbered(processes: dict[int, str]) -> dict[str, int]:
    """Names that differ: the second of a name gets a number."""
    found: dict[str, int] = {}
    for pid, name in processes.items():
        alike = sum(one == name or one.startswith(f"{name} #") for one in found)
        found[f"{name} #{alike + 1}" if alike else name] = pid
    return found


def _killed(server: ServerProcess, model: Model, name: str, names: dict[str, int]) -> dict[str, Any]:
    watch = MemoryWatch(server, every=1.0)
    load = Clients(server, model, CLIENTS, steer=False, adapters=False)
    time.sleep(LOAD_SECONDS)
    before = len(server.output())
    if name not in names:
        raise RuntimeError(f"this server has no process {name!r}, but {sorted(names)}")
    os.kill(names[name], signal.SIGKILL)
    start, seconds = time.monotonic(), None
    while time.monotonic() - start < 2 * LIMIT_SECONDS:
        server.process.poll()
        if not processes_of(server):
            seconds = round(time.monotonic() - start, 1)
            break
        time.sleep(0.1)
    watch.stop()
    left = processes_of(server)
    status = server.process.poll()
    load.stop()
    said = server.output()[before:]
    clear = [line for line in said.splitlines() if re.search(rf"\b{names[name]}\b", line)]
    report = {
        "killed": name,
        "of": len(names),
        "seconds_until_all_ended": seconds,
        "status": status,
        "processes_left": sorted(left.values()),
        "shared_memory_left": left_of(watch.shared),
        "lines_that_name_it": clear,
        "tracebacks": said.count("Traceback (most recent call last)"),
        "last_lines": [line for line in said.splitlines() if line.strip()][-12:],
    }
    return {**report, "faults": _faults(name, report)}


def _faults(name: str, report: dict[str, Any]) -> list[str]:
    found = []
    if report["seconds_until_all_ended"] is None or report["seconds_until_all_ended"] > LIMIT_SECONDS:
        found.append(f"after {LIMIT_SECONDS:.0f} s there are still {report['processes_left'] or 'some'}")
    if ours := [one for one in report["shared_memory_left"] if not one.startswith(LEFT_BY_SGLANG)]:
        found.append(f"shared memory is left: {ours}")
    if name != "server" and len(report["lines_that_name_it"]) != 1:
        found.append(f"{len(report['lines_that_name_it'])} lines name the process that was killed")
    if report["tracebacks"]:
        found.append(f"{report['tracebacks']} tracebacks")
    return found
