"""The host work of a decode step does not grow with the batch, counted in calls: no time is measured."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from sglang_platform.core.portable.triton import split_work

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"

MOST_CALLS = 250
"""Of Python's functions, of C's, and of torch's operators, in all parts of a step without its layers."""


class _Operators(TorchDispatchMode):
    """Counts torch's operators, also those that a loop in C calls, as `max` of a tensor does."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


def operators(call: Callable[[], Any]) -> int:
    with _Operators() as counted:
        call()
    return counted.count


def calls(call: Callable[[], Any]) -> int:
    """Calls of functions in Python and in C."""
    count = 0

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(before)
    return count


def counts(call: Callable[[], Any]) -> tuple[int, int]:
    call()  # what is made at the first call
    return calls(call), operators(call)


@pytest.mark.parametrize("package", ["cuda", "rocm"])
def test_a_step_makes_as_many_calls_for_any_batch(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    host_step = importlib.import_module("host_step")
    monkeypatch.setattr(split_work, "plan_kernel", host_step.Launches())
    few, many = (
        {name: counts(call) for name, call in host_step.calls_of_a_step(package, batch).items()}
        for batch in (32, 512)
    )
    # The number of parts of a request is searched for among at most MOST_SPLITS.
    of_layers = [step.pop("attention, a layer") for step in (few, many)]
    assert few == many
    assert sum(map(sum, few.values())) < MOST_CALLS
    assert max(map(sum, of_layers)) < MOST_CALLS


@pytest.mark.parametrize(
    "growing",
    [
        lambda lengths: max(lengths),
        lambda lengths: sum(lengths),
        lambda lengths: [int(n) for n in lengths],
        lambda lengths: any(lengths < 0),
    ],
    ids=("max", "sum", "list", "any"),
)
def test_work_that_grows_is_counted(growing: Callable[[Any], Any]) -> None:
    few, many = (counts(lambda n=n: growing(torch.ones(n, dtype=torch.int64))) for n in (32, 512))
    assert sum(many) > sum(few) + 400
