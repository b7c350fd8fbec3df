"""Platforms with which nothing is wrong: on none of them, with no seed, may a check fail.

`python healthy.py [--seeds N] [--first-seed N] [--shares N] [--host sglang] [NAME ...]` runs the suite on them, and
prints every false alarm. Those of `healthy_platforms.py` are made of parts: what judges parts is run on them, in this
process. With `--shares N` each seed asks one check of N of them, another share at the next seed and of the next
platform: all checks and platforms meet in N seeds.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from healthy_platforms import UNLIKE
from in_process import outcome
from mutants_of_source import DIRECT, DIRECT_ACTIVATE
from plugins import NAME, write_plugin

from sglang_platform.conformance.check import registered
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.outcome import Outcome
from sglang_platform.conformance.runner import Runner, Selection

PLATFORMS = ("reference", "example_oot", "cuda", "rocm", "plain", "direct", "direct_reference")
"""The suite's own; the example; the two GPU packages, as far as this machine can tell; a plugin of 30 lines on core's
contract; a small one that is written on SGLang's classes, and one with parts (both with a host only)."""

_DIRECT_REFERENCE = "direct_reference=sglang_platform.conformance.reference.on_sglang:DirectPlatform"
_REFERENCE = "reference=sglang_platform.conformance.reference.platform:ReferencePlatform"


def selection(name: str, folder: Path, *, host: str, seed: int, levels: tuple[Level, ...]) -> Selection:
    """One of `PLATFORMS`, written into `folder` where it is not installed."""
    fields = {"host": host, "seed": seed, "levels": levels}
    if name == "reference":
        return Selection(_REFERENCE, **fields)  # type: ignore[arg-type]
    if name == "direct_reference":
        return Selection(_DIRECT_REFERENCE, **fields)  # type: ignore[arg-type]
    if name not in ("plain", "direct"):
        return Selection(name, **fields)  # type: ignore[arg-type]
    if name == "plain":
        write_plugin(folder)
    else:
        requires = ("sglang", "torch")
        write_plugin(folder, activate=DIRECT_ACTIVATE, platform=DIRECT, contract="", requires=requires)
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    return Selection(NAME, environment={"PYTHONPATH": path}, **fields)  # type: ignore[arg-type]


def false_alarms(
    name: str, *, host: str = "none", seed: int = 0, levels: tuple[Level, ...] = ()
) -> tuple[int, list[Outcome]]:
    """How many checks passed on a healthy platform, and those that failed."""
    with tempfile.TemporaryDirectory(prefix="healthy-") as folder:
        outcomes = Runner(selection(name, Path(folder), host=host, seed=seed, levels=levels)).run()
    return sum(one.status == "passed" for one in outcomes), [one for one in outcomes if one.is_bad]


OF_PARTS = (Level.MEMORY, Level.KERNELS, Level.GRAPHS)

ONCE = ("kernels.served_models_attention", "graphs.graphs_keep_no_memory")
"""Half of the time of a run: with the first seed only. What is drawn does not change their cases."""


def false_alarms_of_parts(
    name: str,
    *,
    seed: int = 0,
    levels: tuple[Level, ...] = (),
    without: tuple[str, ...] = (),
    share: tuple[int, int] = (0, 1),
) -> tuple[int, list[Outcome]]:
    """The same of one of `UNLIKE`. `share`: (k, n) is every nth of the checks, from the kth on."""
    checks = [
        check.id
        for check in registered().values()
        if check.level in (levels or OF_PARTS) and check.level in OF_PARTS and "none" in check.hosts
    ]
    asked = checks[share[0] :: share[1]]
    found = [outcome(UNLIKE[name], check, seed) for check in asked if check not in without]
    return sum(one.status == "passed" for one in found), [one for one in found if one.is_bad]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--shares", type=int, default=1)
    parser.add_argument("--host", default="none")
    parser.add_argument("--level", action="append", default=[])
    given = parser.parse_args()
    names = given.names or [name for name in PLATFORMS if "direct" not in name or given.host == "sglang"]
    unlike = [name for name in given.names or UNLIKE if name in UNLIKE]
    levels = tuple(map(Level.parse, given.level))
    total, began = 0, time.monotonic()
    for seed in range(given.first_seed, given.first_seed + given.seeds):
        for name in dict.fromkeys([*unlike, *names]):
            if name in UNLIKE:
                share = (seed + unlike.index(name)) % given.shares
                passed, alarms = false_alarms_of_parts(
                    name,
                    seed=seed,
                    levels=levels,
                    without=ONCE if seed and given.shares == 1 else (),
                    share=(share, given.shares),
                )
            else:
                passed, alarms = false_alarms(name, host=given.host, seed=seed, levels=levels)
            total += len(alarms)
            print(
                f"{name}, seed {seed}: {passed} passed, {len(alarms)} false alarms, "
                f"{time.monotonic() - began:.0f} s",
                flush=True,
            )
            for one in alarms:
                print(f"  {one.status} {one.id}: {one.what or one.why} {one.case or ''}")
    print(f"{total} false alarms")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
