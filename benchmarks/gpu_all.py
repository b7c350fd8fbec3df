r"""All that only a GPU can show, in one command and within a budget of time.

    python benchmarks/gpu_all.py [--budget 540] [--out FOLDER] [--peers FOLDER] [--carry FOLDER]

It needs torch, Triton and the wheels below, no SGLang and no network. In this order, each in processes of their own
with time limits:

1. plan: the device, the versions, its copy bandwidth, what there is to run.
2. compile: every row's kernels, on all cores, before anything is timed.
3. correctness: each declared kernel against float64, one process per kernel; those of `--first` before the others.
4. rows: first one of each name, then all; one process per group, a line after each row.
5. racecheck: the small kernels under compute-sanitizer, where it is installed.
6. conformance: the suite's levels contract, memory, kernels and graphs on the platform.

What raises, hangs or kills its process costs its own rows only. A kernel that is wrong is not timed; one
that there was no time to check is, and the table says so. What did not fit
into the budget is listed as not run. `gpu_all.json`, `gpu_all.md` and `gpu_all.svg` are whole whenever the run is
stopped; without `--out` they are in `benchmarks/results/gpu_all-ARCHITECTURE`.

Peers are found where they are installed (FlashInfer, FlashAttention, SGLang). On a bare machine, SGLang's Triton
kernels come with `--peers`: `python benchmarks/gpu_peers FOLDER` writes that folder where SGLang is installed.
`--carry` is a folder that `gpu_carry.py` wrote: wheels of what is missing beside torch and Triton.

`--pretend sm_90` goes through without a GPU: kernels run in Triton's interpreter and are compiled for the target.
"""

from __future__ import annotations

import argparse
import datetime
import os
import signal
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import gpu_environment
from gpu_record import Record
from gpu_steps import STEPS, Steps

HERE = Path(__file__).resolve().parent


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="gpu-all-") as scratch:
        environment = gpu_environment.build(Path(scratch), carry=options.carry, peers=options.peers)
        steps = Steps(options, environment, Path(scratch))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, partial(_stop, steps))
        plan = steps.plan()
        if plan is None:
            print(steps.why_not, file=sys.stderr)
            return 2
        kind = "-pretended" if options.pretend else ""
        out = options.out or HERE / "results" / f"gpu_all-{plan['versions']['target']}{kind}"
        record = Record(
            out,
            started=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            budget=options.budget,
            pretended=bool(options.pretend),
        )
        if options.go_on:
            record.go_on()
        try:
            steps.run(plan, record)
        except KeyboardInterrupt:
            record.add("not_run", what="everything after the last step", why="the run was stopped")
        finally:
            record.save()
        print((out / "gpu_all.md").read_text())
        return 1 if record.is_bad() else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--budget", type=float, default=540, help="seconds for everything")
    parser.add_argument("--out", type=Path, help="the folder of the results")
    parser.add_argument("--peers", type=Path, help="a folder that `gpu_peers` wrote")
    parser.add_argument("--carry", type=Path, help="a folder of wheels")
    parser.add_argument("--platform", choices=("cuda", "rocm"), help="that of torch when left out")
    parser.add_argument("--pretend", metavar="TARGET", help="no GPU: a rehearsal for this architecture")
    parser.add_argument("--steps", default=",".join(STEPS), help=f"of {', '.join(STEPS)}")
    parser.add_argument("--groups", default="", help="groups of rows; all when empty")
    parser.add_argument("--levels", default="contract,memory,kernels,graphs", help="of the suite")
    parser.add_argument("--first", default="", help="kernels whose correctness is checked before the others'")
    parser.add_argument("--go-on", action="store_true", help="with what an earlier run left in --out")
    parser.add_argument("--quick", action="store_true", help="the smallest case of each row")
    parser.add_argument("--declared", default="", help="module:KERNELS, in place of the package's")
    parser.add_argument("--seeds", type=int, default=1, help="of the correctness of each kernel")
    parser.add_argument("--row-limit", type=float, default=60, help="seconds that one row may take")
    parser.add_argument("--kernel-limit", type=float, default=90, help="seconds of one kernel's correctness")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    options.steps = [name for name in options.steps.split(",") if name]
    unknown = set(options.steps) - set(STEPS)
    if unknown:
        parser.error(f"no such step: {', '.join(sorted(unknown))}; there are {', '.join(STEPS)}")
    return options


def _stop(steps: Steps, number: int, frame: Any) -> None:
    steps.stop()
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
