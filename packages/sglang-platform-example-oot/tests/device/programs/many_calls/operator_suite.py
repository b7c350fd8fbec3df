"""Torch's `op_db` on the device: what passes, what fails, what is not implemented; each test in a process that may die.

    operator_suite.py [--only TEXT] [--every N] [--page FILE] [--report FILE]

Ends with 1 where a test fails or kills its process: what is not implemented must raise NotImplementedError.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import unittest
import warnings
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

os.environ.setdefault("SGLANG_EXAMPLE_OOT_NATIVE", "1")
os.environ.setdefault("SGLANG_EXAMPLE_OOT_DEVICES", "2")
os.environ.setdefault("PYTORCH_TEST_WITH_SLOW", "1")
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

# torch reads the above when it is imported
import torch
import torch.testing._internal.common_methods_invocations  # seconds, once for all children
from children import Children, Ended, Note

from sglang_platform.example_oot.device import open_device
from sglang_platform.example_oot.kernels import library

OUTCOMES = ("passed", "failed", "not implemented", "as the CPU", "not asked", "died")
LIKE = 24
"""Letters of an error's text that are those of the CPU's."""
_tests: list[tuple[type, str]] = []
_on_cpu: dict[str, type] = {}
_device = ""


def _open() -> None:
    global _device
    warnings.simplefilter("ignore")
    _device = open_device()
    import operator_tests

    for test_class in operator_tests.instantiate(_device).values():
        test_class.setUpClass()
        if test_class.device_type == "cpu":  # type: ignore[attr-defined]
            _on_cpu.update(dict.fromkeys(unittest.TestLoader().getTestCaseNames(test_class), test_class))
            continue
        _tests.extend((test_class, one) for one in unittest.TestLoader().getTestCaseNames(test_class))


class Outcome(unittest.TestResult):
    """How one test ended: `(outcome, why)`."""

    said = ("passed", "")

    def addFailure(self, test: Any, err: Any) -> None:
        self.said = ("failed", _line(err[1]))

    def addError(self, test: Any, err: Any) -> None:
        missing = _is_not_implemented(err[1])
        self.said = ("not implemented" if missing else "failed", _line(err[1]))

    def addSkip(self, test: Any, reason: str) -> None:
        self.said = ("not asked", reason[:200])

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        self.addError(test, err)


def _is_not_implemented(error: BaseException | None) -> bool:
    """Torch's tests wrap what a sample raised."""
    while error is not None and not isinstance(error, NotImplementedError):
        error = error.__cause__
    return error is not None


def _line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:400]


def _piece(number: int, note: Note) -> Any:
    test_class, name = _tests[number]
    outcome, why = _run(test_class, name)
    if outcome in ("failed", "not implemented"):
        on_cpu = name.replace(f"_{_device}_", "_cpu_")
        other, text = _run(_on_cpu[on_cpu], on_cpu) if on_cpu in _on_cpu else ("", "")
        if other == outcome and text[:LIKE] == why[:LIKE]:
            outcome = "as the CPU"
    return [name, outcome, why]


def _run(test_class: type, name: str) -> tuple[str, str]:
    result = Outcome()
    test_class(name).run(result)
    return result.said


def _names() -> list[str]:
    """All tests: a child opens the device, which this process may not."""
    asked = Children(_open, lambda number, note: [name for _, name in _tests], patience=300)
    ended = asked.run(0, 1)
    if ended:
        raise SystemExit(f"the tests cannot be made: {ended.how}")
    names: list[str] = asked.kept()[0]
    asked.close()
    return names


def run(numbers: list[int], names: list[str], patience: float) -> list[Any]:
    """`[name, outcome, why]` of each test."""
    died = []

    def ended(found: Ended) -> None:
        died.append([names[numbers[found.number]], "died", found.how])
        print(f"{names[numbers[found.number]]}: {found.how}", flush=True)

    children = Children(_open, lambda number, note: _piece(numbers[number], note), patience)
    outcomes = children.run_all(0, len(numbers), ended)
    children.close()
    return [*outcomes, *died]


def question(name: str) -> str:
    """The question a test asks: the part of its name before the operator's."""
    asked = (
        "test_op_basic_functionality",
        "test_out_argument",
        "test_noncontiguous_samples",
        "test_values_of_the_cpu",
    )
    return next((one for one in asked if name.startswith(one)), "test_errors")


def page(outcomes: list[Any], of: int, seconds: float) -> str:
    """The Markdown of `docs/device_operators.md`."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for name, outcome, _ in outcomes:
        counts[question(name)][outcome] += 1
    total = sum(counts.values(), Counter())
    lines = [
        "# Operators of torch on the example device",
        "",
        "Generated by `nox -s device_operators`. Every entry of torch's `op_db` on the C++ device that vendors copy,",
        "in float32, bfloat16 and int64, by torch's own device-generic tests. `test_op_basic_functionality`,",
        "`test_out_argument` and `test_noncontiguous_samples` are what torch asks of its reference device for",
        "PrivateUse1 (OpenReg, `test_opinfo.py`), under the same names. Values are equal within the tolerances of",
        "torch's tests, or those of inputs that differ by some roundings.",
        "",
        f"torch {torch.__version__}, {len(outcomes)} tests of {of}: "
        + ", ".join(f"{total[outcome]} {outcome}" for outcome in OUTCOMES)
        + f"; {seconds:.0f} s.",
        "",
        "| question | " + " | ".join(OUTCOMES) + " |",
        "|---|" + "---:|" * len(OUTCOMES),
    ]
    for name in sorted(counts):
        lines.append(f"| `{name}` | " + " | ".join(str(counts[name][outcome]) for outcome in OUTCOMES) + " |")
    for outcome, meaning in (
        ("failed", "Nobody has found out why."),
        ("died", "The process ended, or gave no answer."),
        ("not implemented", "NotImplementedError: the device has dense tensors of plain types only."),
        (
            "as the CPU",
            "The same test fails on the CPU with the same error: it asks what the operator never promised.",
        ),
    ):
        told = [(name, why) for name, found, why in sorted(outcomes) if found == outcome]
        if told:
            lines += [
                "",
                f"## {outcome[0].upper()}{outcome[1:]}",
                "",
                meaning,
                "",
                "| test | why |",
                "|---|---|",
            ]
            lines += [f"| `{name.removeprefix('test_')}` | {_cell(why)} |" for name, why in told]
    reasons = Counter(why for _, found, why in outcomes if found == "not asked")
    lines += ["", "## Not asked", "", "| why | tests |", "|---|---:|"]
    lines += [f"| {_cell(why)} | {count} |" for why, count in sorted(reasons.items())]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")[:160]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="tests whose name holds one of these, separated by commas")
    parser.add_argument("--every", type=int, default=1, help="each Nth test only")
    parser.add_argument("--patience", type=float, default=300, help="seconds a test may take")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    if library.backend() != "native":
        print("this machine cannot build the device", file=sys.stderr)
        return 2
    started = time.monotonic()
    names = _names()
    only = options.only.split(",")
    numbers = [n for n, name in enumerate(names) if any(part in name for part in only)][:: options.every]
    outcomes = run(numbers, names, options.patience)
    if options.report:
        options.report.write_text(json.dumps(outcomes, indent=1))
    if options.page:
        options.page.write_text(page(outcomes, len(names), time.monotonic() - started))
    for name, outcome, why in outcomes:
        if outcome in ("failed", "not implemented"):
            print(f"{outcome}: {name}: {why}")
    total = Counter(outcome for _, outcome, _ in outcomes)
    print(f"{len(outcomes)} tests in {time.monotonic() - started:.0f} s: {dict(total)}")
    return 1 if total["failed"] or total["died"] else 0


if __name__ == "__main__":
    sys.exit(main())
