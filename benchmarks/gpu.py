"""The kernels of the CUDA and ROCm platforms on a GPU, in one process: that they are right, then how fast they are.

    python benchmarks/gpu.py [--results FOLDER] [--only attention,memory] [--quick] [--seeds 3]

1. Every declared kernel against its float64 oracle, on the device, over the shapes of the conformance suite. A wrong
   kernel ends the run: its speed means nothing.
2. The rows of `gpu_rows/`, each against the device's copy bandwidth and the peers that can be imported here.

Writes `gpu.json` and `gpu.svg` (a roofline) into the folder and prints a table. It needs a GPU, torch 2.11 or later and
triton 3.6 or later; FlashInfer, FlashAttention and SGLang are measured where they are installed. `--pretend sm_90`, or
`--platform rocm --pretend gfx942`, runs all of it but the measuring on a machine without a GPU: rows are launched and
compiled, and nothing is executed.

`gpu_all.py` starts this program for one step at a time, which a kernel may hang or kill: `--do`, with `--journal`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gpu_journal
import gpu_roofline
import gpu_rows
import gpu_table
import gpu_timing
from gpu_rows import package


def main() -> int:
    options = _options()
    if options.pretend and options.do == "correctness":
        # Without a device kernels run in Triton's interpreter, which must be there before any of them.
        from sglang_platform.conformance.kernels import interpreter

        interpreter.start()
    package.choose(options.platform)
    device, target = _device(options.pretend)
    if device is None:
        print(target, file=sys.stderr)
        return 2
    journal = gpu_journal.Journal(options.journal)
    if options.do == "plan":
        journal.write(plan=_plan(device, target, options))
        return 0
    if options.do == "correctness":
        for outcome in _correctness(device, target, options):
            journal.write(kernel=outcome)
        return 0
    if options.do == "rows":
        return _some_rows(device, target, options, journal)
    return _everything(device, target, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=Path("results-gpu"))
    parser.add_argument("--only", default="", help=f"of {', '.join(gpu_rows.GROUPS)}; all when empty")
    parser.add_argument("--quick", action="store_true", help="the smallest case of each row")
    parser.add_argument("--seeds", type=int, default=3, help="seeds of the correctness check")
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument(
        "--pretend", metavar="TARGET", help="no GPU: compile for this target and measure nothing"
    )
    parser.add_argument(
        "--platform", choices=("cuda", "rocm"), help="the package; that of torch when left out"
    )
    parser.add_argument(
        "--do", choices=("all", "plan", "correctness", "rows"), default="all", help="one step of gpu_all.py"
    )
    parser.add_argument("--journal", type=Path, help="a file for a line of JSON per event")
    parser.add_argument("--declared", default="", help="module:KERNELS, in place of the package's")
    parser.add_argument("--kernel", action="append", default=[], help="only this declared kernel")
    parser.add_argument("--row", type=int, action="append", default=[], help="only this row of the group")
    return parser.parse_args()


def _everything(device: Any, target: str, options: argparse.Namespace) -> int:
    versions = gpu_timing.versions(device, target)
    print(json.dumps(versions, indent=1))
    record: dict[str, Any] = {
        "versions": versions,
        "pretended": bool(options.pretend),
        "correctness": [],
        "rows": [],
    }
    options.results.mkdir(parents=True, exist_ok=True)
    if not options.pretend:
        for outcome in _correctness(device, target, options):
            record["correctness"].append(outcome)
            print(gpu_table.kernel_line(outcome), flush=True)
        if any(outcome["failed"] for outcome in record["correctness"]):
            (options.results / "gpu.json").write_text(json.dumps(record, indent=1))
            print("a kernel is wrong on this device: nothing was measured", file=sys.stderr)
            return 1
    timer = _timer(device, target, options)
    record["copy_bandwidth"] = timer.copy_bandwidth()
    for name in _groups(options):
        for row in gpu_rows.rows(name, options.quick):
            measured = timer.measure(row)
            record["rows"].append(measured)
            print(gpu_table.line(measured, record["copy_bandwidth"]), flush=True)
            (options.results / "gpu.json").write_text(json.dumps(record, indent=1))
    print("\n" + gpu_table.table(record))
    gpu_roofline.save(record, options.results / "gpu.svg")
    return 0


def _some_rows(device: Any, target: str, options: argparse.Namespace, journal: gpu_journal.Journal) -> int:
    """The rows named, of one group. The first that raises ends the process: its device may be of no more use."""
    timer = _timer(device, target, options)
    (group,) = _groups(options)
    for number, row in enumerate(gpu_rows.rows(group, options.quick)):
        if options.row and number not in options.row:
            continue
        journal.write(begun={"group": group, "number": number})
        try:
            measured = timer.measure(row)
        except Exception as error:  # noqa: BLE001 - whatever a kernel raises is what its row says
            journal.write(failed={"group": group, "number": number, "why": gpu_journal.in_a_line(error)})
            return 3
        journal.write(row={**measured, "group": group, "number": number})
    return 0


def _plan(device: Any, target: str, options: argparse.Namespace) -> dict[str, Any]:
    """What there is to do on this device, before any of it is done."""
    return {
        "versions": gpu_timing.versions(device, target),
        "copy_bandwidth": _timer(device, target, options).copy_bandwidth(),
        "platform": package.platform(),
        "kernels": [
            {"kernel": declared.name, "check": declared.check} for declared in _declared(target, options)
        ],
        "rows": [
            {
                "group": group,
                "number": number,
                "name": row.name,
                "case": dict(row.case),
                "checks": list(row.checks),
            }
            for group in _groups(options)
            for number, row in enumerate(gpu_rows.rows(group, options.quick))
        ],
    }


def _groups(options: argparse.Namespace) -> list[str]:
    return [name for name in options.only.split(",") if name] or list(gpu_rows.GROUPS)


def _timer(device: Any, target: str, options: argparse.Namespace) -> Any:
    if options.pretend:
        return gpu_timing.Pretended(package.architectures()[target])
    return gpu_timing.Timer(device, options.repeats)


def _device(pretended: str | None) -> tuple[Any, str]:
    """The device and its architecture, or None and why there is none."""
    import torch

    if pretended:
        if pretended not in package.architectures():
            known = ", ".join(package.architectures())
            return None, f"{pretended} is no architecture of --platform {package.platform()} ({known})"
        return torch.device("cpu"), pretended
    if not torch.cuda.is_available():
        return None, (
            f"no GPU can be used: torch {torch.__version__} finds no device (built for CUDA "
            f"{torch.version.cuda}, HIP {torch.version.hip}). --pretend sm_90 goes through without one."
        )
    device = torch.device("cuda", torch.cuda.current_device())
    return device, package.architectures().of(device).name


def _declared(target: str, options: argparse.Namespace) -> Iterator[Any]:
    from sglang_platform.conformance.kernels.load import declarations

    place = options.declared or f"sglang_platform.{package.platform()}.kernels.declared:KERNELS"
    for declared in declarations([place]):
        if not declared.exclusions.get(target) and (not options.kernel or declared.name in options.kernel):
            yield declared


def _correctness(device: Any, target: str, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Each declared kernel against its oracle."""
    from sglang_platform.conformance.kernels.interpreter.run import run_cases

    for declared in _declared(target, options):
        outcomes = [outcome for seed in range(options.seeds) for outcome in run_cases(declared, device, seed)]
        failed = [outcome for outcome in outcomes if outcome["faults"]]
        if not outcomes:
            failed = [{"case": "none", "faults": ["the family has no case for this kernel"]}]
        worst = max((outcome["worst"] or 0.0 for outcome in outcomes), default=0.0)
        yield {
            "kernel": declared.name,
            "check": declared.check,
            "cases": len(outcomes),
            "worst": worst,
            "failed": failed,
        }


if __name__ == "__main__":
    sys.exit(main())
