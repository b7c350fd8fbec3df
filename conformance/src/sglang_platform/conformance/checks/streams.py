"""Levels 2 and 3: streams of the device that wait for each other, as the host's copies and its next batch do, and what
lies in memory meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from sglang_platform.conformance.check import NotApplicable, Row, check, expect, mended_by, rows
from sglang_platform.conformance.fixtures.brought_classes import HOST_COPIES, copying_memory
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.subject import Subject

__all__ = ["LongWork", "streams_of"]

_WIDTH = 256
_SECONDS = 0.1
"""The work that is waited for takes at least so long: the host gives the next work to the device much sooner."""
_MOST_ROUNDS = 1 << 14
_NUMBERS = 4096
_ROWS = 16
_SIZES = (256, 4096, 1 << 20)
"""Numbers of 4 bytes: an allocator may have lists of their own for small and large blocks."""

_TAKEN, _MOST_TAKEN = 4096, 1 << 24
"""Tensors, and numbers in them, among which memory that was freed is looked for."""


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

_check = partial(check, level=Level.CONTRACT, seconds=120)


@_check(
    needs="device",
    cases=rows(_WAYS),
    fix="wait for the stream that is named, up to what it was given last: wait_stream(other) is"
    " wait_event(other.record_event()), and an event stands for all that its stream was given before",
)
def streams_wait_for_each_other(subject: Subject, case: Row) -> None:
    """Work on one stream that waits for another, by a stream, an event or on the host, begins when all that the other
    was given is done: the host copies results, and loads keys, beside the next batch."""
    device, module = subject.device, streams_of(subject)
    first, second = module.Stream(), module.Stream()
    made, read = (torch.zeros(_NUMBERS, device=device) for _ in range(2))
    work = LongWork(device, module)
    for attempt in range(3):
        made.zero_()
        read.zero_()
        module.synchronize()
        with module.stream(first):
            work()
            made.fill_(attempt + 1)
        _WAYS[case.row](module, first, second)
        with module.stream(second):
            read.copy_(made)
        module.synchronize()
        early = int((read != attempt + 1).sum())
        expect(
            early == 0,
            f"after {case.row} {early} of {_NUMBERS} numbers that another stream was still to write are read as they"
            f" were before (attempt {attempt + 1} of 3)",
        )


@_check(
    needs="device",
    fix="give memory to nobody until every stream that record_stream() named has done what it was given before the"
    " tensor was freed, whatever its size",
)
def freed_tensors_wait_for_their_streams(subject: Subject) -> None:
    """A tensor that another stream still reads, and that `record_stream()` was told of it, is freed, and tensors of its
    size are made and filled: the other stream reads what was in it, of 1 KiB to 4 MiB."""
    device, module = subject.device, streams_of(subject)
    other, work = module.Stream(), LongWork(device, module)
    for numbers in _SIZES:
        made, read = torch.ones(numbers, device=device), torch.zeros(numbers, device=device)
        module.synchronize()
        with module.stream(other):
            work()
            read.copy_(made)
        made.record_stream(other)
        address = made.data_ptr()
        del made
        taken = []
        for _ in range(min(_TAKEN, _MOST_TAKEN // numbers)):
            taken.append(torch.empty(numbers, device=device))
            if taken[-1].data_ptr() == address:  # a list of what is free may go round before
                taken[-1].fill_(7)
                break
        module.synchronize()
        lost = int((read != 1).sum())
        expect(
            lost == 0,
            f"{lost} of {numbers} numbers of a tensor that another stream still read, and that was freed after"
            " record_stream(), are those of a tensor that was made meanwhile",
            case={"numbers": numbers},
        )
        del taken


@_check(
    needs="device",
    fix="copy memory that is not page-locked aside before a call with non_blocking=True returns, or wait for the copy",
)
def copies_take_what_was_there(subject: Subject) -> None:
    """A copy to the device with non_blocking=True, behind other work, brings what was in ordinary memory of the host
    when it was asked for: the host writes the next batch into it."""
    device, module = subject.device, streams_of(subject)
    work = LongWork(device, module)
    for numbers in _SIZES:
        on_host, copied = torch.ones(numbers), torch.zeros(numbers, device=device)
        module.synchronize()
        work()
        moved = on_host.to(device, non_blocking=True)
        copied.copy_(on_host, non_blocking=True)
        on_host.fill_(7)
        module.synchronize()
        for there, call in ((moved, "to()"), (copied, "copy_()")):
            late = int((there != 1).sum())
            expect(
                late == 0,
                f"after {call} with non_blocking=True {late} of {numbers} numbers are what the host wrote afterwards",
                case={"numbers": numbers},
            )


@_check(
    level=Level.MEMORY,
    hosts=("none",),
    founds=HOST_COPIES,
    fix="queue copies on the current stream; on a stream of your own let it wait for the current one, and the current"
    " one for it",
)
def host_copies_wait_for_the_stream(subject: Subject) -> None:
    """`copy_slots()` out of the device takes rows that work of the current stream is still to write, before later work
    writes them anew, and into the device brings rows before later work reads them."""
    memory = copying_memory(subject)
    device, module = subject.device, streams_of(subject)
    work, slots = LongWork(device, module), torch.arange(_ROWS)
    on_device = torch.zeros(_ROWS, _NUMBERS, device=device)
    on_host, other = (memory.allocate((_ROWS, _NUMBERS), torch.float32) for _ in range(2))
    on_device.fill_(2)
    module.synchronize()
    for target in (on_host, other):  # a copy that is late comes with the next
        memory.copy_slots([on_device], [target], slots, slots)
    module.synchronize()
    with mended_by("copy row from_[i] of every source to row to[i] of its target"):
        _expect_all(on_host, 2, "out of the device brings", "wrongly, where nothing else is queued")
    work()
    on_device.fill_(3)
    memory.copy_slots([on_device], [on_host], slots, slots)
    on_device.fill_(4)
    module.synchronize()
    late = "as they were before or after, and not as the current stream had them"
    _expect_all(on_host, 3, "out of the device brings", late)
    on_host.fill_(5)
    work()
    on_device.fill_(4)
    memory.copy_slots([on_host], [on_device], slots, slots)
    read = on_device.clone()
    module.synchronize()
    late = "as they were before, or its earlier work writes over them"
    _expect_all(read, 5, "to the device lets the current stream read", late)


def _expect_all(numbers: torch.Tensor, wanted: int, what: str, how: str) -> None:
    wrong = int((numbers != wanted).sum())
    expect(wrong == 0, f"copy_slots() {what} {wrong} of {numbers.numel()} numbers {how}")


def streams_of(subject: Subject) -> Any:
    """torch's of the device. Raises NotApplicable for one without streams."""
    kind = subject.device.type
    if kind == "cpu":
        raise NotApplicable("a CPU has no streams")
    module = torch.get_device_module(kind)
    if not hasattr(module, "Stream"):
        raise NotApplicable(f"torch.{kind} has no streams")
    return module


class LongWork:
    """Gives the current stream work of at least `_SECONDS`, products of which nobody reads the result."""

    def __init__(self, device: torch.device, module: Any) -> None:
        self._unit = torch.eye(_WIDTH, device=device)
        self._product = torch.empty_like(self._unit)
        self._rounds = 4
        while self._rounds < _MOST_ROUNDS:
            module.synchronize()
            began = time.perf_counter()
            self()
            module.synchronize()
            if time.perf_counter() - began > _SECONDS:
                break
            self._rounds *= 2

    def __call__(self) -> None:
        for _ in range(self._rounds):
            torch.mm(self._unit, self._unit, out=self._product)
