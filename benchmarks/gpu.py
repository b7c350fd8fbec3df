"""The kernels of the CUDA and ROCm platforms on a GPU: first that they are right there, then how fast they are.

    python benchmarks/gpu.py [--results FOLDER] [--only attention,memory] [--quick] [--seeds 3]

1. Every declared kernel against its float64 oracle, on the device, over the shapes of the conformance suite. A wrong
   kernel ends the run: its speed means nothing.
2. The rows of `gpu_rows/`, each against the device's copy bandwidth and the peers that can be imported here.

Writes `gpu.json` and `gpu.svg` (a roofline) into the folder and prints a table. It needs a GPU, torch 2.11 or later and
triton 3.6 or later; FlashInfer, FlashAttention and SGLang are measured where they are installed. `--pretend sm_90`, or
`--platform rocm --pretend gfx942`, runs
all of it but the measuring on a machine without a GPU: wrappers run and compile, nothing is executed, no time is noted.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import gpu_roofline
import gpu_rows
import gpu_table
import gpu_timing
from gpu_rows import package


def main() -> int:
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
    options = parser.parse_args()

    package.choose(options.platform)
    device, target = _device(options.pretend)
    if device is None:
        print(target, file=sys.stderr)
        return 2
    versions = gpu_timing.versions(device, target)
    print(json.dumps(versions, indent=1))
    record: dict[str, Any] = {
        "versions": versions,
        "pretended": bool(options.pretend),
        "correctness": [],
        "rows": [],
    }
    options.results.mkdir(parents=True, exist_ok=True)

    if not options.pretend and not _correct(device, target, options.seeds, record):
        (options.results / "gpu.json").write_text(json.dumps(record, indent=1))
        print("a kernel is wrong on this device: nothing was measured", file=sys.stderr)
        return 1
    timer = (
        gpu_timing.Pretended(package.architectures()[target])
        if options.pretend
        else gpu_timing.Timer(device, options.repeats)
    )
    record["copy_bandwidth"] = timer.copy_bandwidth()
    names = [name for name in options.only.split(",") if name] or list(gpu_rows.GROUPS)
    for name in names:
        for row in gpu_rows.rows(name, options.quick):
            measured = timer.measure(row)
            record["rows"].append(measured)
            print(gpu_table.line(measured, record["copy_bandwidth"]), flush=True)
            (options.results / "gpu.json").write_text(json.dumps(record, indent=1))
    print("\n" + gpu_table.table(record))
    gpu_roofline.save(record, options.results / "gpu.svg")
    return 0


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


def _correct(device: Any, target: str, seeds: int, record: dict[str, Any]) -> bool:
    from sglang_platform.conformance.kernels.interpreter.run import run_cases
    from sglang_platform.conformance.kernels.load import declarations

    good = True
    for declared in declarations([f"sglang_platform.{package.platform()}.kernels.declared:KERNELS"]):
        if declared.exclusions.get(target):
            continue
        outcomes = [outcome for seed in range(seeds) for outcome in run_cases(declared, device, seed)]
        failed = [outcome for outcome in outcomes if outcome["faults"]]
        worst = max((outcome["worst"] or 0.0 for outcome in outcomes), default=0.0)
        print(
            f"{declared.name:28} {len(outcomes):4} cases, {len(failed)} wrong, worst {worst:.2f} of its bound",
            flush=True,
        )
        for outcome in failed[:3]:
            print(f"  {outcome['case']}: " + "; ".join(outcome["faults"]))
        record["correctness"].append(
            {"kernel": declared.name, "cases": len(outcomes), "worst": worst, "failed": failed}
        )
        good &= bool(outcomes) and not failed
    return good


if __name__ == "__main__":
    sys.exit(main())
