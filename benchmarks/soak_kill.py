"""Each process of a server of two ranks is killed once, under load: what becomes of the others, and what is said.

Either the others end, or the server goes on with right answers and ends later as any other."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sysconfig
import time
from pathlib import Path
from typing import Any

from soak_asked import Model
from soak_clients import Clients
from soak_processes import LEFT_BY_SGLANG, TRACKER, MemoryWatch, ended, left_of, processes_of
from soak_tracebacks import OF_A_KILLED_RANK, OF_A_KILLED_TRACKER, by_cause

from sglang_platform.conformance.host.server import ServerProcess

__all__ = ["kill_each"]

LIMIT_SECONDS = 15.0
START_SECONDS = 600
LOAD_SECONDS = 6.0
AT_RANDOM = 3
"""Further kills, of a process and at a moment drawn, once each process had its turn."""
CLIENTS = 8

_FOLDERS = [f"{sysconfig.get_path(name)}/" for name in ("purelib", "stdlib")]
"""Left out of what is written down: they are of one machine."""


def kill_each(models: Path, seed: int, journal: Path) -> dict[str, Any]:
    """One server for each process that the first one shows, in random order, and a few more. What `journal` already has
    is not done again; it is written after each."""
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
                each = [(name, LOAD_SECONDS) for name in source.sample(sorted(names), len(names))]
                more = [(source.choice(sorted(names)), source.uniform(0.2, 20)) for _ in range(AT_RANDOM)]
                report["order"] = [(name, round(after, 1)) for name, after in each + more]
            name, after = report["order"][len(report["runs"])]
            report["runs"].append(_killed(server, model, name, after, names))
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


def _killed(
    server: ServerProcess, model: Model, name: str, after: float, names: dict[str, int]
) -> dict[str, Any]:
    watch = MemoryWatch(server, every=1.0)
    load = Clients(server, model, CLIENTS, steer=False, adapters=False)
    time.sleep(after)
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
    serves = server.alive and _answers(server, model)
    load.stop()
    left = ended(server)[1] if serves else processes_of(server)
    watch.stop()
    status = server.process.poll()
    said = server.output()[before:]
    known, unknown = by_cause(said, OF_A_KILLED_TRACKER if name == TRACKER else OF_A_KILLED_RANK)
    clear = [line for line in said.splitlines() if re.search(rf"\b{names[name]}\b", line)]
    report = {
        "killed": name,
        "after_seconds": after,
        "of": len(names),
        "seconds_until_all_ended": seconds,
        "serves_on": serves,
        "status": status,
        "processes_left": sorted(left.values()),
        "shared_memory_left": left_of(watch.shared),
        "lines_that_name_it": clear,
        "tracebacks_that_are_due": known,
        "tracebacks_not_known": unknown,
        "last_lines": [line for line in _told(said).splitlines() if line.strip()][-12:],
    }
    return {**report, "faults": _faults(name, report)}


def _told(text: str) -> str:
    for folder in _FOLDERS:
        text = text.replace(folder, "")
    return text


def _answers(server: ServerProcess, model: Model) -> bool:
    """Whether the server still gives right answers: then nothing has to end."""
    asked = {
        "input_ids": model.prompts[3],
        "sampling_params": {"temperature": 0, "max_new_tokens": 16, "ignore_eos": True},
    }
    answer = server.post("/generate", asked, timeout=LIMIT_SECONDS)
    return answer.status == 200 and model.judge_tokens(3, None, 16)(answer.status, answer.body) is None


def _faults(name: str, report: dict[str, Any]) -> list[str]:
    found = []
    seconds = report["seconds_until_all_ended"]
    if report["serves_on"]:
        if report["processes_left"]:
            found.append(f"it served on, and after SIGTERM there are still {report['processes_left']}")
    elif seconds is None or seconds > LIMIT_SECONDS:
        found.append(f"after {LIMIT_SECONDS:.0f} s there are still {report['processes_left'] or 'some'}")
    if ours := [one for one in report["shared_memory_left"] if not one.startswith(LEFT_BY_SGLANG)]:
        found.append(f"shared memory is left: {ours}")
    if name != "server" and not report["serves_on"] and len(report["lines_that_name_it"]) != 1:
        found.append(f"{len(report['lines_that_name_it'])} lines name the process that was killed")
    return [*found, *(f"a traceback that is not known: {one}" for one in report["tracebacks_not_known"])]
