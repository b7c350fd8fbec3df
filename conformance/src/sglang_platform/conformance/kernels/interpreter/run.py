"""Runs the checks of declared kernels in the interpreter; the main program of an interpreter process.

`python -m sglang_platform.conformance.kernels.interpreter.run PLACE... [--only NAME] [--seed N]` prints one JSON line
per case: declaration, case, seconds, and what went wrong, empty where all is well.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Iterator
from typing import Any

from sglang_platform.conformance.kernels import interpreter
from sglang_platform.conformance.kernels.load import declarations, named
from sglang_platform.conformance.kernels.tested import drawing_from

__all__ = ["check_of", "run_cases"]


def check_of(declared: Any) -> Any:
    """The check that a declaration names: one of the suite's, or the vendor's own."""
    if ":" in declared.check:
        return named(declared.check)
    return named(f"sglang_platform.conformance.kernels.checks.{declared.check}:cases")


def run_cases(declared: Any, device: Any, seed: int, share: int = 0, of: int = 1) -> Iterator[dict[str, Any]]:
    """The outcome of every case of one declaration, or of each `of`-th one from `share` on."""
    entry = named(declared.entry)
    with drawing_from(declared):
        cases = list(check_of(declared)(entry, device, seed))
    for number, case in enumerate(cases):
        if number % of != share:
            continue
        start = time.perf_counter()
        try:
            with drawing_from(declared):
                outcomes = case.run()
            wrong = [f"{o.what}: {o.error:.3g} times its bound: {o.words}" for o in outcomes if not o.good]
            if not outcomes:
                wrong = ["the case compared nothing"]
            worst = max((o.error for o in outcomes), default=0.0)
        except Exception:  # noqa: BLE001 - whatever a kernel raises is its finding
            wrong, worst = [traceback.format_exc(limit=-5)[-2000:]], float("inf")
        yield {
            "declaration": declared.name,
            "case": case.name,
            "seconds": round(time.perf_counter() - start, 4),
            "worst": worst if worst != float("inf") else None,
            "faults": wrong,
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("places", nargs="+")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", default="0/1", help="which of how many equal parts to run")
    arguments = parser.parse_args()
    interpreter.start()
    import torch

    torch.set_num_threads(1)
    share, of = (int(n) for n in arguments.share.split("/"))
    good = True
    for declared in declarations(arguments.places):
        if arguments.only and declared.name not in arguments.only:
            continue
        for outcome in run_cases(declared, torch.device("cpu"), arguments.seed, share, of):
            good &= not outcome["faults"]
            print(json.dumps(outcome), flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
