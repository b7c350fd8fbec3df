"""SGLang started on the example device again and again beside busy loops: does a start hang?

`python benchmarks/starts.py --count 100 --busy 2`. Each start is an engine as tests, suite and `generate` start it: it
answers one prompt, whose tokens must be those of transformers, and is stopped. One that is not up within `--limit`
seconds is ended, and its line in the journal holds the stacks of all its processes. Two configurations take turns: one
with graphs on pages, one eager on single slots.

The journal has a line for each start, written when it is over. A run that is stopped goes on where it was: `--count`
is how many lines there shall be. What they say together is printed, and written beside the journal.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sglang_platform.conformance.guard import descendants
from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.engine import EngineFailed, EngineProcess
from sglang_platform.conformance.host.equality import Configuration
from sglang_platform.conformance.host.session import models_folder

_NEW_TOKENS = 16
_LOOP = Path(__file__).with_name("busy_loop.py")
_CONFIGURATIONS = (
    Configuration("llama", page_size=16, graph_runner=True),
    Configuration("deepseek_v3", page_size=1, graph_runner=False),
)


@dataclass(frozen=True)
class Asked:
    """A configuration with its checkpoint, one prompt and the tokens that transformers gives to it."""

    configuration: Configuration
    checkpoint: Path
    prompt: list[int]
    wanted: list[int]

    @classmethod
    def of(cls, configuration: Configuration) -> Asked:
        name = configuration.architecture
        checkpoint = make_checkpoint(models_folder() / name, name)
        (prompt,) = reference.prompts([20], seed=3)
        (wanted,) = reference.greedy(checkpoint, [prompt], _NEW_TOKENS)
        return cls(configuration, checkpoint, prompt, wanted)


@contextlib.contextmanager
def busy_loops(count: int, nice: int) -> Iterator[None]:
    """Processes that do nothing but keep a processor busy, give way by `nice`, and end when this one does."""
    loop = ["nice", "-n", str(nice), sys.executable, "-S", str(_LOOP), str(os.getpid())]
    loops = [subprocess.Popen(loop) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def used_seconds(pid: int) -> dict[str, float]:
    """Of a process and all that it started, until now: `processor`, what they computed; `queued`, how long their main
    threads were ready and had no processor."""
    ticks, queued = 0, 0
    for one in (pid, *descendants(pid)):
        folder = Path(f"/proc/{one}")
        with contextlib.suppress(OSError):  # a process may end while it is read
            ticks += sum(map(int, (folder / "stat").read_text().rpartition(")")[2].split()[11:13]))
            queued += int((folder / "schedstat").read_text().split()[1])
    return {"processor": round(ticks / os.sysconf("SC_CLK_TCK"), 1), "queued": round(queued / 1e9, 1)}


def one_start(asked: Asked, limit: float) -> dict[str, Any]:
    """Seconds of the start, of the first answer and of the end by the clock, and those of `used_seconds` at the start's
    end; `fault` is None where all was well."""
    row: dict[str, Any] = {
        "what": str(asked.configuration),
        "load": round(os.getloadavg()[0], 1),
        "fault": None,
    }
    arguments = {
        **asked.configuration.engine_arguments(asked.checkpoint),
        "cuda_graph_bs_decode": [1, 2, 4],
    }
    begun = time.perf_counter()

    def lap() -> float:
        nonlocal begun
        taken, begun = time.perf_counter() - begun, time.perf_counter()
        return round(taken, 1)

    try:
        engine = EngineProcess("example_oot", arguments, seconds=limit)
    except EngineFailed as error:
        return {**row, "start": lap(), "fault": str(error)}
    with engine:
        row |= {"start": lap(), **used_seconds(engine.pid)}
        try:
            (reply,) = engine.call("generate", input_ids=[asked.prompt], max_new_tokens=_NEW_TOKENS)
        except EngineFailed as error:
            return {**row, "fault": str(error)}
        row["answer"] = lap()
        if reply["output_ids"] != asked.wanted:
            row["fault"] = f"the answer is {reply['output_ids']}, and {asked.wanted} is right"
    return {**row, "end": lap()}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures of a journal, together and of each configuration."""
    kinds = sorted({row["what"] for row in rows})
    return {
        **_figures(rows),
        "of each": {one: _figures([r for r in rows if r["what"] == one]) for one in kinds},
    }


def _figures(rows: list[dict[str, Any]]) -> dict[str, Any]:
    told: dict[str, Any] = {"starts": len(rows), "faults": sum(row["fault"] is not None for row in rows)}
    for name in ("start", "processor", "queued", "answer", "end", "load"):
        values = sorted(row[name] for row in rows if name in row)
        if values:
            told[name] = {"median": statistics.median(values), "shortest": values[0], "longest": values[-1]}
    return told


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--busy", type=int, default=2)
    parser.add_argument("--busy-nice", type=int, default=0, help="how far the busy loops give way, 0 to 19")
    parser.add_argument("--limit", type=float, default=600, help="seconds for one start")
    parser.add_argument("--journal", type=Path, default=Path(__file__).parent / "results" / "starts.jsonl")
    options = parser.parse_args()
    options.journal.parent.mkdir(parents=True, exist_ok=True)
    every = [Asked.of(one) for one in _CONFIGURATIONS]
    rows = (
        [json.loads(line) for line in options.journal.read_text().splitlines()]
        if options.journal.exists()
        else []
    )
    while len(rows) < options.count:
        beside = {"busy": options.busy, "busy_nice": options.busy_nice}
        with busy_loops(options.busy, options.busy_nice):
            rows.append({**beside, **one_start(every[len(rows) % len(every)], options.limit)})
        with options.journal.open("a") as journal:
            journal.write(json.dumps(rows[-1]) + "\n")
        print(len(rows), {name: value for name, value in rows[-1].items() if name != "fault"}, flush=True)
    told = summary(rows)
    options.journal.with_suffix(".json").write_text(json.dumps(told, indent=1) + "\n")
    print(json.dumps(told, indent=1))
    return int(told["faults"] > 0)


if __name__ == "__main__":
    sys.exit(main())
