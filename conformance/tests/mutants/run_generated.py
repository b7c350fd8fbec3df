"""Runs the generated mutations of the reference platform's pools, allocator and attention, a process for each.

`python run_generated.py [--write PAGE] [FILE ...]` prints what survives. A survivor must be explained in
`generated_survivors.py`, by what it is: a change that changes nothing, or one that no engine can notice.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import torch
from generated_mutations import Mutation, mutations
from generated_survivors import explanation
from in_process import first_failure
from patched_reference import SOURCE, ChangedReference

from sglang_platform.conformance.check import registered

SECONDS = 60

KINDS = ("comparison", "arithmetic", "logic", "number", "slice", "statement")
"""Of changes: those of which every one is made. The others are for the packages, which are sampled."""

POOLS, ALLOCATORS, ATTENTION = (
    "sglang_platform.conformance.checks." + name for name in ("pool", "allocators", "attention")
)
CHECKED = {
    "pools.py": (POOLS, "sglang_platform.conformance.checks.dsa"),
    "rows.py": (POOLS,),
    "dsa_pool.py": (POOLS, "sglang_platform.conformance.checks.dsa"),
    "allocator.py": (ALLOCATORS,),
    "attention.py": (ATTENTION,),
}
"""The modules of checks that must notice a change of a file, by how their names begin."""

_SLOW = ("memory.random_histories_add_up",)
"""Only for what survives all others."""


@dataclass(frozen=True)
class Result:
    mutation: Mutation
    killer: str | None
    message: str
    seconds: float


def checks_for(file: str) -> list[str]:
    """The checks that judge a file, slow ones last."""
    ids = [one.id for one in registered().values() if one.function.__module__.startswith(CHECKED[file])]
    return sorted(ids, key=lambda name: name in _SLOW)


def run_one(mutation: Mutation) -> Result:
    """Judge one mutation in this process."""
    started = time.perf_counter()
    torch.set_num_threads(1)
    signal.signal(
        signal.SIGALRM, lambda *_: (_ for _ in ()).throw(TimeoutError(f"no end within {SECONDS} s"))
    )
    signal.alarm(SECONDS)
    try:
        changed = ChangedReference("generated_reference", {mutation.file: mutation.text})
        killer, message = first_failure(changed.platform(), checks_for(mutation.file))
    except BaseException as error:  # noqa: BLE001 - the mutation breaks the import
        killer, message = "import", f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
    return Result(mutation, killer, message, time.perf_counter() - started)


def run_all(files: Sequence[str], jobs: int) -> list[Result]:
    """Every mutation of the files, in the order of the files."""
    registered()  # imported once, before the processes are made
    every = [one for file in files for one in mutations(file, (SOURCE / file).read_text())]
    found = [one for one in every if one.kind in KINDS]
    context = multiprocessing.get_context("fork")
    results = []
    with context.Pool(jobs, maxtasksperchild=1) as pool:
        for result in pool.imap(run_one, found, chunksize=1):
            results.append(result)
            one = result.mutation
            if result.killer is None and explanation(one) is None:
                print(f"SURVIVES {one.kind} line {one.line}: {one.name}", flush=True)
    return results


PACKAGES = "## Packages, sampled\n"
"""Where the section of `packages/run_packages.py` begins."""

_HEAD = """# Generated mutations

Beside the mutants that were written by hand ([mutants](mutants.md)), every small change that a mutation tool makes is
made to the reference platform's pools, allocator and attention, one at a time. What no check notices is listed here,
with the reason why nothing is wrong with it. Written by `nox -s mutants_generated`; do not edit.

"""


def page(results: Sequence[Result]) -> str:
    """The page: how many of each file are killed, and the survivors with their explanations."""
    lines = ["| file | mutations | killed | survivors, all explained |", "| --- | --- | --- | --- |"]
    for file in CHECKED:
        own = [one for one in results if one.mutation.file == file]
        killed = sum(one.killer is not None for one in own)
        lines.append(f"| `{file}` | {len(own)} | {killed} | {len(own) - killed} |")
    alive = [one for one in results if one.killer is None]
    killed = len(results) - len(alive)
    lines.append(f"| all | {len(results)} | {killed} ({100 * killed / len(results):.1f} %) | {len(alive)} |")
    lines += ["", "| file | was | becomes | why it survives |", "| --- | --- | --- | --- |"]
    for one in alive:
        cells = (
            one.mutation.file,
            f"`{one.mutation.old}`",
            f"`{one.mutation.new}`",
            explanation(one.mutation) or "?",
        )
        lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    return _HEAD + "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="*", default=[])
    parser.add_argument("--write", type=Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    results = run_all(given.files or list(CHECKED), given.jobs)
    alive = [one for one in results if one.killer is None]
    unexplained = [one for one in alive if explanation(one.mutation) is None]
    killed = len(results) - len(alive)
    print(f"{killed} of {len(results)} killed; {len(unexplained)} of {len(alive)} survivors unexplained")
    if given.write is not None:
        _, mark, packages = given.write.read_text(encoding="utf-8").partition(PACKAGES)
        kept = f"\n{mark}{packages}" if mark else ""
        given.write.write_text(page(results) + kept, encoding="utf-8")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
