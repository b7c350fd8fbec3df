"""SGLang started on the example device again and again beside busy loops: does a start hang?

`python benchmarks/starts.py --count 100 --busy 2`. Each start is an engine as tests, suite and `generate` start it: it
answers one prompt, whose tokens must be those of transformers, and is stopped. One that is not up within `--limit`
seconds is ended, and its line in the journal holds the stacks of all its processes.

The journal has a line for each start, written when it is over. A run that is stopped goes on where it was: `--count`
is how many lines there shall be. What they say together is printed, and written beside the journal.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.engine import EngineFailed, EngineProcess
from sglang_platform.conformance.host.session import models_folder

_NEW_TOKENS = 16


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Processes that do nothing but keep a processor busy."""
    loops = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def one_start(checkpoint: Path, prompt: list[int], wanted: list[int], limit: float) -> dict[str, Any]:
    """Seconds of the start, of the first answer and of the end; `fault` is None where all was well."""
    row: dict[str, Any] = {"load": round(os.getloadavg()[0], 1), "fault": None}
    arguments = {"model_path": str(checkpoint), "page_size": 16, "cuda_graph_bs_decode": [1, 2, 4]}
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
        row["start"] = lap()
        try:
            (reply,) = engine.call("generate", input_ids=[prompt], max_new_tokens=_NEW_TOKENS)
        except EngineFailed as error:
            return {**row, "fault": str(error)}
        row["answer"] = lap()
        if reply["output_ids"] != wanted:
            row["fault"] = f"the answer is {reply['output_ids']}, and {wanted} is right"
    return {**row, "end": lap()}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures of a journal."""
    told: dict[str, Any] = {"starts": len(rows), "faults": sum(row["fault"] is not None for row in rows)}
    for name in ("start", "answer", "end", "load"):
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
    parser.add_argument("--limit", type=float, default=600, help="seconds for one start")
    parser.add_argument("--journal", type=Path, default=Path(__file__).parent / "results" / "starts.jsonl")
    options = parser.parse_args()
    options.journal.parent.mkdir(parents=True, exist_ok=True)
    checkpoint = make_checkpoint(models_folder() / "llama", "llama")
    (prompt,) = reference.prompts([20], seed=3)
    (wanted,) = reference.greedy(checkpoint, [prompt], _NEW_TOKENS)
    rows = (
        [json.loads(line) for line in options.journal.read_text().splitlines()]
        if options.journal.exists()
        else []
    )
    while len(rows) < options.count:
        with busy_loops(options.busy):
            rows.append({"busy": options.busy, **one_start(checkpoint, prompt, wanted, options.limit)})
        with options.journal.open("a") as journal:
            journal.write(json.dumps(rows[-1]) + "\n")
        print(len(rows), {name: value for name, value in rows[-1].items() if name != "fault"}, flush=True)
    told = summary(rows)
    options.journal.with_suffix(".json").write_text(json.dumps(told, indent=1) + "\n")
    print(json.dumps(told, indent=1))
    return int(told["faults"] > 0)


if __name__ == "__main__":
    sys.exit(main())
