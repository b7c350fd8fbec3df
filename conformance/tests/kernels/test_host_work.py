"""The host work of a decode step does not grow with the batch, counted in calls: no time is measured."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"

MOST_CALLS = 200
"""Of Python's functions, of C's, and of torch's operators, in all parts of a replayed step in which a request ends."""
MOST_OF_A_STORE, MOST_OF_A_LAYER = 90, 190
"""The same, of one layer of a step without a graph."""


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
    """Calls of functions in Python and in C, without the collector's callbacks (Hypothesis registers one)."""
    count = 0

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    gc.disable()
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(before)
        gc.enable()
    return count


def counts(call: Callable[[], Any]) -> tuple[int, int]:
    call()  # what is made at the first call
    return calls(call), operators(call)


@pytest.mark.parametrize("package", ["cuda", "rocm"])
def test_a_step_makes_as_many_calls_for_any_batch(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    host_step = importlib.import_module("host_step")
    found = []
    for batch in (1, 32, 256, 512):
        with host_step.recording(package):
            calls_of_a_step = host_step.calls_of_a_step(package, batch)
            found.append({name: counts(call) for name, call in calls_of_a_step.items()})
    # The number of parts of a request is searched for among at most MOST_SPLITS; one request needs no new page.
    of_layers = [step.pop("attention, a layer") for step in found]
    alone, *many = found
    assert many == [many[0]] * len(many)
    assert all(sum(alone[name]) <= sum(many[0][name]) for name in alone)
    replayed = {name: sum(counted) for name, counted in many[0].items() if name not in host_step.NOT_REPLAYED}
    assert sum(replayed.values()) < MOST_CALLS, replayed
    assert sum(many[0]["store, a layer"]) < MOST_OF_A_STORE
    assert max(map(sum, of_layers)) < MOST_OF_A_LAYER


def test_a_collection_is_not_counted() -> None:
    def called(phase: str, info: object) -> int:
        return len(phase)

    before = gc.get_threshold()
    gc.callbacks.append(called)
    gc.set_threshold(5)
    try:
        kept: list[list[int]] = []
        assert len({calls(lambda: kept.append([1])) for _ in range(50)}) == 1
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(called)


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
