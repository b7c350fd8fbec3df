"""Probes of `device_operations_do_what_they_promise`: each device of the machine is asked by its index."""

from __future__ import annotations

import contextlib
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from sglang_platform.conformance.check import NotApplicable, expect
from sglang_platform.conformance.checks.processes import seen
from sglang_platform.conformance.checks.streams import LongWork, streams_of
from sglang_platform.conformance.subject import Subject

__all__ = [
    "ErrorInside",
    "by_index",
    "current_device",
    "memory_by_device",
    "reindexed_processes",
    "reindexing",
]

_SIZE = 256 << 20
_OF_ONE_DEVICE = ("get_device_uuid", "get_device_name", "get_device_capability", "get_device_total_memory")


class ErrorInside(Exception):
    pass


_VISIBLE = (
    *("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "MUSA_VISIBLE_DEVICES"),
    *("ASCEND_RT_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"),
)


def reindexing(subject: Subject) -> None:
    """Variables that name visible devices, and all that it changes, are as the operator left them, set or not."""
    kept = dict(os.environ)
    try:
        changed = {""}
        for named in (False, True):
            os.environ.update({name: "0,1" for name in (*_VISIBLE, *changed) if named and name})
            before = dict(os.environ)
            for raises in (False, True):
                with contextlib.suppress(ErrorInside), subject.platform.reindex_device_id(0) as index:
                    expect(isinstance(index, int), f"reindex_device_id(0) yields {index!r}, not an index")
                    changed |= {name for name, value in os.environ.items() if before.get(name) != value}
                    if raises:
                        raise ErrorInside
                for name in sorted({*before, *os.environ}):
                    was, now = before.get(name), os.environ.get(name)
                    what = f"{name} was {was!r}, and after reindex_device_id(0){' and an error inside it' * raises}"
                    expect(was == now, f"{what} it is {now!r}")
    finally:
        os.environ.clear()
        os.environ.update(kept)


def reindexed_processes(subject: Subject) -> None:
    """A process started inside reindex_device_id(i) has device i: SGLang looks for its workers by that uuid."""
    platform = subject.platform
    for device in sorted({0, subject.device_count() - 1}):
        before = dict(os.environ)
        free = [platform.get_available_memory(device)[0]]
        with platform.reindex_device_id(device) as index:
            names = {*before, *os.environ}
            changed = {
                name: os.environ.get(name) for name in names if os.environ.get(name) != before.get(name)
            }
            calls = {method: f"{method}({index})" for method in (*_OF_ONE_DEVICE, "get_available_memory")}
            what = f"it comes to its platform inside reindex_device_id({device})"
            told = seen(subject, what, environment=changed, expressions=list(calls.values()))["answers"]
        free.append(platform.get_available_memory(device)[0])
        inside = f"in a process started inside reindex_device_id({device})"
        for method in _OF_ONE_DEVICE:
            here, again = (repr(getattr(platform, method)(device)) for _ in range(2))
            expect(here == again, f"{method}({device}) answers {here}, then {again}")
            there = told[calls[method]]
            expect(
                here == there,
                f"{method}({device}) answers {here}, and {calls[method]} {inside} {there}",
            )
        call, total = calls["get_available_memory"], platform.get_device_total_memory(device)
        there = int(told[call].strip("()").partition(",")[0])
        expect(
            min(free) - total // 4 <= there <= max(free) + total // 4,
            f"{free[0]} bytes of device {device} are free, and {call} {inside} answers {told[call]}",
        )


def current_device(subject: Subject) -> None:
    """For each device of the machine, and in another thread, as the host's threads for transfers begin. What waits
    includes work of streams that are not current: with overlapped scheduling the forward runs on its own."""
    platform, kind = subject.platform, subject.device.type
    module = None
    with contextlib.suppress(NotApplicable):
        module = streams_of(subject)
    try:
        for index in reversed(range(subject.device_count())):
            device = torch.device(platform.get_device(index))
            platform.set_device(device)
            made = torch.ones(256, 256, device=kind)
            expect(
                device.index is None or made.device.index == device.index,
                f"after set_device({device!r}) a tensor on {kind!r} is on {made.device!r}",
            )
            if module is None:
                continue
            work = LongWork(device, module)
            for name, stream in (("the current", module.current_stream()), ("another", module.Stream())):
                done = module.Event()
                with module.stream(stream):
                    work()
                    done.record()
                platform.synchronize()
                expect(
                    done.query(),
                    f"after synchronize() work that was queued on {name} stream of {device!r} is not done",
                )
    finally:
        platform.set_device(platform.get_device(0))

    def in_a_thread() -> None:
        platform.set_device(platform.get_device(0))
        platform.synchronize()

    with ThreadPoolExecutor(1) as thread:
        error = thread.submit(in_a_thread).exception()
    expect(error is None, f"in another thread than the first set_device() or synchronize() raises {error!r}")


def by_index(subject: Subject) -> None:
    subject.stands_on("memory of the device")
    platform, count = subject.platform, subject.device_count()
    uuids: dict[Any, int] = {}
    for index in range(count):
        device, uuid = platform.get_device(index), platform.get_device_uuid(index)
        expect(
            device.index in ((None, index) if count == 1 else (index,)),
            f"get_device({index}) answers {device!r}, and there are {count} devices",
        )
        alike = uuids.setdefault(uuid, index)
        expect(
            alike == index, f"get_device_uuid() answers {uuid!r} for device {alike} and for device {index}"
        )
        total, (free, of) = platform.get_device_total_memory(index), platform.get_available_memory(index)
        expect(
            0 <= free <= of and abs(of - total) <= 0.05 * total,
            f"device {index} has {total} bytes, and get_available_memory({index}) answers ({free}, {of})",
        )
        expect(platform.get_device_name(index), f"get_device_name({index}) is empty")
        platform.get_device_capability(index)
    for method in ("get_device", "get_device_name", "get_device_uuid", "get_device_capability"):
        without, with_index = getattr(platform, method)(), getattr(platform, method)(0)
        expect(without == with_index, f"{method}() answers {without!r}, and {method}(0) {with_index!r}")


def memory_by_device(subject: Subject) -> None:
    """What is held on one device is missing there and not on another. Where devices share the machine's memory only a
    large part shows: it is not written to, and takes no pages of the machine."""
    subject.stands_on("memory of the device")
    platform, count = subject.platform, subject.device_count()
    if count < 2:
        return
    for index, other in ((count - 1, 0), (0, count - 1)):
        problem = _misses(subject, index, other, _SIZE)
        if problem is not None:
            free, total = platform.get_available_memory(index)
            with contextlib.suppress(RuntimeError):  # so much is not to be had: nothing is known
                problem = _misses(subject, index, other, total - free // 2)
                expect(problem is None, problem or "")


def _misses(subject: Subject, index: int, other: int, size: int) -> str | None:
    """What does not follow from `size` bytes that are held on device `index`."""
    platform = subject.platform
    device, another = (torch.device(platform.get_device(one)) for one in (index, other))
    module = torch.get_device_module(device.type)
    own = getattr(module, "mem_get_info", None) or torch.accelerator.get_memory_info
    own_before = own(device)[0] - own(another)[0]
    asked = {
        "get_available_memory({})[0]": lambda one: -platform.get_available_memory(one.index)[0],
        "get_current_memory_usage({})": platform.get_current_memory_usage,
    }
    platform.empty_cache()
    before = {call: ask(device) - ask(another) for call, ask in asked.items()}
    held = torch.empty(size, dtype=torch.uint8, device=device)
    try:
        if own_before - own(device)[0] + own(another)[0] < _SIZE // 2:
            return None  # torch says that all devices share one memory
        for call, ask in asked.items():
            moved = ask(device) - ask(another) - before[call]
            if moved < _SIZE // 2:
                names = [
                    call.format(one) for one in ((index, other) if "avail" in call else (device, another))
                ]
                return f"{size} bytes are held on device {index}, and {names[0]} answers as {names[1]}"
        usage = platform.get_current_memory_usage
        for current in (device, another):
            platform.set_device(current)
            without, of = usage(None), usage(current)
            if abs(without - of) > _SIZE // 2:
                return (
                    f"the current device is {current!r}, and get_current_memory_usage(None) answers {without:.0f}, and"
                    f" get_current_memory_usage({current!r}) {of:.0f}: SGLang asks without a device"
                )
    finally:
        del held
        platform.set_device(platform.get_device(0))
        platform.empty_cache()
    return None
