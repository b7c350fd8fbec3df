"""Hostile calls of every operator that the device answers. Each must end with a value or a Python exception.

    fuzz.py [--calls 50000] [--seed 1] [--only TEXT] [--report FILE]
    fuzz.py --seed 1 --call 4711       one call, in this process, shown

Calls run in forked processes; one that dies or stands still is a finding, named by seed and number. A call of torch's
operators that kills the CPU's kernel too, in a process without the device, is torch's own. Values are compared with the
CPU's. Ends with 1 where a process died or stood still in a call that the CPU survives, or a value is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

os.environ.setdefault("SGLANG_EXAMPLE_OOT_MEMORY", str(1 << 28))
os.environ.setdefault("SGLANG_EXAMPLE_OOT_DEVICES", "2")
os.environ.setdefault("SGLANG_EXAMPLE_OOT_NATIVE", "1")
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # torch warns of every out= that grows

# torch reads the above when it is imported
import judge as judging
import kernel_calls
import torch_calls
from children import Children, Ended, Note
from recipes import Call

from sglang_platform.example_oot.device import open_device
from sglang_platform.example_oot.device_type import NAME
from sglang_platform.example_oot.kernels import library

SHARE_OF_KERNELS = 0.3
HOST_MEMORY = 8 << 30
ON_THE_CPU = 1
AND_THE_CPU = ", and so does the CPU alone"
KINDS = ("wrong", "stricter", "laxer")


def call_of(seed: int, number: int, names: list[str]) -> Call:
    """The call `number` of `seed`: the same in every process of one torch."""
    draw = random.Random(f"{seed}:{number}")
    ours = [name for name in names if name in kernel_calls.KERNELS]
    others = [name for name in names if name not in kernel_calls.KERNELS]
    if ours and (not others or draw.random() < SHARE_OF_KERNELS):
        return kernel_calls.draw_call(draw, ours)
    return torch_calls.draw_call(draw, others)


def _open() -> None:
    open_device()
    if "LD_PRELOAD" not in os.environ:  # a sanitizer reserves more than any limit
        used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_DATA, (used + HOST_MEMORY, used + HOST_MEMORY))


def _children(seed: int, names: list[str], patience: float, cpu: bool = False) -> Children:
    def piece(number: int, note: Note) -> Any:
        call = call_of(seed, number, names)
        device = "cpu" if cpu else NAME
        try:
            return [number, call.name, *judging.judge(call, device, lambda where: note(int(where == "cpu")))]
        except MemoryError:  # while values are compared; what the call itself raises is an answer
            return [number, call.name, "apart", ""]

    return Children((lambda: None) if cpu else _open, piece, patience)


def fuzz(calls: int, seed: int, names: list[str], patience: float, start: int = 0) -> dict[str, Any]:
    """What was found: `crashes` are the device's, `torch` are the CPU's as well."""
    crashes: list[Any] = []
    of_torch: list[Any] = []

    def dies_on_the_cpu(number: int) -> bool:
        """In a process without the device: what that does to the host's memory may be why the CPU's kernel died."""
        again = _children(seed, names, patience, cpu=True)
        died = again.run(number, number + 1) is not None
        again.close()
        return died

    def ended(found: Ended) -> None:
        call = call_of(seed, found.number, names)
        alone = call.name not in kernel_calls.KERNELS and dies_on_the_cpu(found.number)
        (of_torch if alone else crashes).append([found.number, call.name, found.how])
        where = " on the CPU after the device" if found.mark == ON_THE_CPU else ""
        also = AND_THE_CPU if alone else ""
        print(f"call {found.number} of seed {seed}, {call.name}: {found.how}{where}{also}", flush=True)

    children = _children(seed, names, patience)
    outcomes = children.run_all(start, start + calls, ended)
    children.close()
    return {
        "seed": seed,
        "calls": len(outcomes) + len(crashes) + len(of_torch),
        "operators": len({name for _, name, _, _ in outcomes}),
        "verdicts": dict(sorted(Counter(verdict for _, _, verdict, _ in outcomes).items())),
        "crashes": crashes,
        "torch": of_torch,
        **{kind: [one for one in outcomes if one[2] == kind] for kind in KINDS},
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=50000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start", type=int, default=0, help="the number of the first call")
    parser.add_argument("--only", default="", help="operators whose name holds this")
    parser.add_argument("--call", type=int, help="make this one call here, and show it")
    parser.add_argument("--patience", type=float, default=60, help="seconds a call may take")
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    if library.backend() != "native":
        print("this machine cannot build the device", file=sys.stderr)
        return 2
    names = [*kernel_calls.KERNELS, *torch_calls.operators()]
    names = [name for name in names if options.only in name]
    if options.call is not None:
        call = call_of(options.seed, options.call, names)
        print(call, flush=True)
        print(*judging.judge(call, open_device(), lambda where: None))
        return 0
    started = time.monotonic()
    found = fuzz(options.calls, options.seed, names, options.patience, options.start)
    if options.report:
        options.report.parent.mkdir(parents=True, exist_ok=True)
        options.report.write_text(json.dumps(found, indent=1))
    for kind in KINDS:
        for name, count in Counter(one[1] for one in found[kind]).most_common(60):
            example = next(one for one in found[kind] if one[1] == name)
            print(f"{kind}: {name}, {count} times; call {example[0]}: {example[3]}")
    print(
        f"seed {found['seed']}: {found['calls']} calls of {found['operators']} operators in "
        f"{time.monotonic() - started:.0f} s: {found['verdicts']}; {len(found['crashes'])} crashes, "
        f"{len(found['torch'])} of torch's own"
    )
    return 1 if found["crashes"] or found["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
