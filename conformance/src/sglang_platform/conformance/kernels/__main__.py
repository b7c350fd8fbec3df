"""All that can be known about a platform's kernels without its device.

(a) every kernel in the interpreter against float64, (b) machine code for every target, (c) the launch wrappers under a
driver without a device, in one pass with (b). Ends with one line on what only hardware can show.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sglang_platform.conformance.extras import require
from sglang_platform.conformance.kernels.compile.farm import compile_all
from sglang_platform.conformance.kernels.decode_code import CASES, TARGETS, DecodeCode, shares
from sglang_platform.conformance.kernels.decode_code import compiled as compiled_decode
from sglang_platform.conformance.kernels.load import declarations, named
from sglang_platform.conformance.kernels.table import page

__all__ = ["main"]

_LEFT = "speed, the device's own rounding and scheduling, races inside a program, and real memory faults"


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0 only if every case and every launch passed."""
    parser = argparse.ArgumentParser(
        prog="python -m sglang_platform.conformance.kernels", description=__doc__
    )
    parser.add_argument(
        "--platform", required=True, help="cuda, rocm, pkg.mod:PlatformClass, or several with commas"
    )
    parser.add_argument("--only", action="append", default=[], help="a declaration's name; may be repeated")
    parser.add_argument("--skip", choices=("interpret", "compile"), action="append", default=[])
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cache", type=Path, help="where Triton keeps what it compiled (TRITON_CACHE_DIR)")
    parser.add_argument("--json", type=Path, help="write every outcome there")
    parser.add_argument("--table", type=Path, help="write the table kernel x target there, as Markdown")
    options = parser.parse_args(arguments)
    require("kernels")
    if options.cache is not None:
        os.environ["TRITON_CACHE_DIR"] = str(options.cache.resolve())

    record: dict[str, Any] = {"platform": options.platform, "cases": [], "rows": []}
    good, seen = True, False
    targets: dict[str, None] = {}
    compiled: list[Any] = []
    for platform in options.platform.split(","):
        places = _places(platform)
        declared = [d for d in declarations(places) if not options.only or d.name in options.only]
        if not declared:
            print(f"{platform} declares no kernels{' of these names' if options.only else ''}")
            continue
        seen = True
        targets |= {target.name: None for one in declared for target in one.targets}
        if "interpret" not in options.skip:
            good &= _interpret(places, [d.name for d in declared], options, record)
        if "compile" not in options.skip:
            good &= _compile(declared, options, compiled)
    if not seen:
        return 1
    record["rows"] = [asdict(row) for row in compiled]
    decode = _decode(options.platform) if any(row.declaration == "paged decode" for row in compiled) else []
    record["decode"] = [asdict(row) for row in decode]
    if options.table is not None:
        import triton

        options.table.write_text(page(compiled, triton.__version__, list(targets), shares(decode)))
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(record, indent=1))
    names = " ".join(targets)
    print(f"\n{'passed' if good else 'FAILED'}; only hardware ({names}) can show: {_LEFT}")
    return 0 if good else 1


def _decode(platforms: str) -> list[DecodeCode]:
    """The loops of decode, of the packages whose kernels can be read so."""
    read = [target for target, package in TARGETS.items() if package in platforms.split(",")]
    return list(compiled_decode(read, list(CASES)))


def _places(platform: str) -> tuple[str, ...]:
    classes = {
        "cuda": "sglang_platform.cuda.platform:CudaSRTPlatform",
        "rocm": "sglang_platform.rocm.platform:RocmSRTPlatform",
    }
    places: tuple[str, ...] = tuple(named(classes.get(platform, platform)).kernels)
    return places


def _interpret(
    places: tuple[str, ...], names: list[str], options: argparse.Namespace, record: dict[str, Any]
) -> bool:
    """The interpreter in processes of its own, each with a share of the cases."""
    # It imports numpy, which comes with the extra that `main` asks for first.
    from sglang_platform.conformance.kernels.interpreter.process import environment

    start = time.perf_counter()
    module = "sglang_platform.conformance.kernels.interpreter.run"
    only = [argument for name in names for argument in ("--only", name)]
    command = [sys.executable, "-m", module, *places, *only, "--seed", str(options.seed)]
    processes = [
        subprocess.Popen(
            [*command, "--share", f"{share}/{options.workers}"],
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        for share in range(options.workers)
    ]
    good = True
    seen: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for process in processes:
        text, _ = process.communicate()
        for line in text.splitlines():
            if line.startswith("{"):
                outcome = json.loads(line)
                seen[outcome["declaration"]].append(outcome)
                record["cases"].append(outcome)
        good &= process.returncode == 0
    for name, outcomes in seen.items():
        failed = [o for o in outcomes if o["faults"]]
        worst = max((o["worst"] or 0.0 for o in outcomes), default=0.0)
        seconds = sum(o["seconds"] for o in outcomes)
        print(f"interpreter  {name:28} {len(outcomes):4} cases, {len(failed)} failed, worst {worst:.2f} of its bound, "
              f"{seconds:.0f} s")  # fmt: skip
        for outcome in failed[:3]:
            print(f"  {outcome['case']}: " + "\n  ".join(outcome["faults"]))
        good &= bool(outcomes) and not failed
    print(f"interpreter  {time.perf_counter() - start:.0f} s")
    return good


def _compile(declared: Any, options: argparse.Namespace, compiled: list[Any]) -> bool:
    start = time.perf_counter()
    rows = list(compile_all(declared, options.workers))
    compiled += rows
    good = True
    for one in declared:
        mine = [row for row in rows if row.declaration == one.name]
        failed = [row for row in mine if row.faults]
        excluded = {(row.target, row.launch) for row in mine if row.excluded}
        pairs = {(row.launch, row.target) for row in mine} - {(launch, target) for target, launch in excluded}
        print(f"compiled     {one.name:28} {len(pairs):4} launches x targets, {len(mine)} kernels, "
              f"{len(excluded)} excluded, {len(failed)} failed")  # fmt: skip
        for row in failed:
            print(f"  {row.launch} {row.kernel} on {row.target}: " + "; ".join(row.faults))
        good &= bool(mine) and not failed
    print(f"compiled     {time.perf_counter() - start:.0f} s")
    return good


if __name__ == "__main__":
    sys.exit(main())
