"""Level 2: streams of the device that wait for each other, as the host's copies and its next batch do."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from sglang_platform.conformance.check import NotApplicable, check, expect
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_WIDTH = 256
_SECONDS = 0.1
"""The work that is waited for takes at least so long: the host gives the next work to the device much sooner."""
_MOST_ROUNDS = 1 << 14
_NUMBERS = 4096


@dataclass(frozen=True)
class Wait:
    """`by`: the call that waits."""

    by: str


def waits(subject: Subject, rng: random.Random) -> Iterator[Wait]:
    for by in _WAYS:
        yield Wait(by)


@check(
    level=Level.CONTRACT,
    needs="device",
    cases=waits,
    seconds=120,
    fix="wait for the stream that is named, up to what it was given last: wait_stream(other) is"
    " wait_event(other.record_event()), and an event stands for all that its stream was given before",
)
def streams_wait_for_each_other(subject: Subject, case: Wait) -> None:
    """Work on one stream that waits for another, by a stream, an event or on the host, begins when all that the other
    was given is done: the host copies results, and loads keys, beside the next batch."""
    device = subject.device
    if device.type == "cpu":
        raise NotApplicable("a CPU has no streams")
    module = torch.get_device_module(device.type)
    if not hasattr(module, "Stream"):
        raise NotApplicable(f"torch.{device.type} has no streams")
    first, second = module.Stream(), module.Stream()
    made, read = (torch.zeros(_NUMBERS, device=device) for _ in range(2))
    unit = torch.eye(_WIDTH, device=device)
    product = torch.empty_like(unit)

    def work(rounds: int) -> None:
        for _ in range(rounds):
            torch.mm(unit, unit, out=product)

    rounds = _rounds(work, module.synchronize)
    for attempt in range(3):
        made.zero_()
        read.zero_()
        module.synchronize()
        with module.stream(first):
            work(rounds)
            made.fill_(attempt + 1)
        _WAYS[case.by](module, first, second)
        with module.stream(second):
            read.copy_(made)
        module.synchronize()
        early = int((read != attempt + 1).sum())
        expect(
            early == 0,
            f"after {case.by} {early} of {_NUMBERS} numbers that another stream was still to write are read as they"
            f" were before (attempt {attempt + 1} of 3)",
        )


def _rounds(work: Callable[[int], None], synchronize: Callable[[], Any]) -> int:
    rounds = 4
    while rounds < _MOST_ROUNDS:
        synchronize()
        began = time.perf_counter()
        work(rounds)
        synchronize()
        if time.perf_counter() - began > _SECONDS:
            break
        rounds *= 2
    return rounds


def _recorded(module: Any, stream: Any) -> Any:
    event = module.Event()
    event.record(stream)
    return event


_WAYS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "second.wait_stream(first)": lambda module, first, second: second.wait_stream(first),
    "second.wait_event(first.record_event())": lambda module, first, second: second.wait_event(
        first.record_event()
    ),
    "event.record(first); event.wait(second)": lambda module, first, second: _recorded(module, first).wait(
        second
    ),
    "event.record(first); event.synchronize()": lambda module, first, second: _recorded(
        module, first
    ).synchronize(),
    "first.synchronize()": lambda module, first, second: first.synchronize(),
    "synchronize()": lambda module, first, second: module.synchronize(),
}
