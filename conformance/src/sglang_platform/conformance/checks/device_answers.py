"""Level 2: what the device's operations say follows what happens on the device, for each device of the machine."""

from __future__ import annotations

import mmap
import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch

from sglang_platform.conformance.check import CheckFailed, NotApplicable, check, expect, mended_by
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.probes.fresh import beside, whoami
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_SIZE = 256 << 20
_ATTEMPTS = 6
_OTHERS = 8
_CHUNK = 1 << 20
_LATE = 2.0
"""Seconds."""

_SMALLEST, _LARGEST = 256 << 20, 1 << 50
"""No accelerator has less than 256 MiB or more than 1 PiB: what is outside is in another unit."""

_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "kB": 1000, "MB": 1000**2, "GB": 1000**3}


_check = partial(check, level=Level.CONTRACT, needs="device")


@_check(
    founds="memory of the device",
    fix="return bytes: SGLang sizes the KV cache of the device from this number",
)
def memory_is_in_bytes(subject: Subject) -> None:
    """Total, free and used memory are numbers of bytes, and agree with one another."""
    platform, true = subject.platform, _true_total(subject)
    total = platform.get_device_total_memory(0)
    says = f"get_device_total_memory(0) answers {total!r},"
    expect(isinstance(total, int) and not isinstance(total, bool), f"{says} not an int")
    again = platform.get_device_total_memory(0)
    expect(again == total, f"{says} then {again}", fix="return what the device has, not what is free now")
    for unit, factor in _UNITS.items():
        near = true is not None and total < _SMALLEST and abs(total * factor - true) < 0.1 * true
        expect(not near, f"{says} which is the memory in {unit}, not in bytes")
    expect(_SMALLEST <= total <= _LARGEST, f"{says} and as bytes that is {total / (1 << 20):.3g} MiB")
    expect(true is None or 0.5 * true <= total <= 2 * true, f"{says} and the device has {true} bytes")
    answer = platform.get_available_memory(0)
    says = f"get_available_memory(0) answers {answer!r},"
    with mended_by("return (free, total) in this order, both in bytes"):
        pair = isinstance(answer, tuple) and len(answer) == 2
        expect(pair and all(isinstance(one, int) for one in answer), f"{says} not two whole numbers of bytes")
        free, of = answer
        expect(0 <= free <= of, f"{says} and more is free than there is")
    expect(abs(of - total) <= 0.05 * total, f"{says} and get_device_total_memory(0) {total}")
    used = platform.get_current_memory_usage(None)
    expect(
        isinstance(used, float | int) and 0 <= used <= total,
        f"get_current_memory_usage(None) answers {used!r}, of {total} bytes",
        fix="return the peak of memory allocated in bytes, a float",
    )


@_check(
    seconds=180,
    fix="ask the driver for the free memory at each call, in bytes, and give it back in empty_cache(): the host sizes"
    " its KV cache from the difference before and after the weights are loaded",
)
def free_memory_follows_allocations(subject: Subject) -> None:
    """Of 256 MiB that are allocated, `get_available_memory()` has that much less free, in bytes, and more again once
    they are freed and `empty_cache()` was called; on a device whose memory others use too, one time in six at
    least. Of the machine's own memory, what the machine has back late or never need not be free again, but torch's
    allocator for the device, where it counts, has let go of it."""
    subject.stands_on("memory of the device")
    platform = subject.platform
    seen: list[tuple[int, int]] = []
    ballast: list[mmap.mmap] = []
    for _ in range(_ATTEMPTS):
        platform.empty_cache()
        before = platform.get_available_memory(0)[0]
        held = torch.full((_SIZE,), 7, dtype=torch.uint8, device=subject.device)
        subject.synchronize()
        kept = _kept_by_torch(subject.device)
        # torch's allocator may keep what it had of the host's memory; pages of the system's it cannot.
        pages = _pages(_SIZE if subject.device.type == "cpu" else mmap.PAGESIZE)
        taken = _taken(platform, before)
        pages.close()
        del held
        platform.empty_cache()
        subject.synchronize()
        left = _kept_by_torch(subject.device)
        expect(
            kept is None or left is None or kept - left >= _SIZE // 2,
            f"{_SIZE} bytes are freed, and after empty_cache() torch's allocator keeps {left} bytes, {kept} before",
            fix="let empty_cache() empty torch's cache of the device",
        )
        after = platform.get_available_memory(0)[0]
        given_back = after - before + taken
        machines = subject.device.type == "cpu" or abs(after - _free_of_the_machine()) < _SIZE // 4
        returned = machines or _SIZE // 2 <= given_back <= 3 * _SIZE
        if _SIZE // 2 <= taken <= 3 * _SIZE and returned:
            return
        seen.append((taken, given_back))
        # What the system did not take back would serve the next attempt, and nothing more be taken.
        ballast.append(_pages(2 * _SIZE if subject.device.type == "cpu" else _SIZE))
    taken, given_back = seen[-1]
    raise CheckFailed(
        f"{_SIZE} bytes are allocated and freed {_ATTEMPTS} times, and get_available_memory(0) has {taken} bytes less"
        f" free meanwhile and {given_back} more afterwards (the last time)"
    )


@_check(
    seconds=180,
    fix="ask the driver for what is free on the device, not what this process has left of it: others may run there",
)
def free_memory_counts_other_processes(subject: Subject) -> None:
    """Of 512 MiB that another process holds on the device, `get_available_memory()` has that much less free (on a
    device whose memory others use too, one time in eight a quarter of it)."""
    subject.stands_on("memory of the device")
    held = 2 * _SIZE
    who = {**whoami(subject), "device_type": subject.device.type}
    seen = []
    for _ in range(_OTHERS):
        before = subject.platform.get_available_memory(0)[0]
        with beside("holding", f"it holds {held} bytes of the device", size=held, **who):
            seen.append(before - subject.platform.get_available_memory(0)[0])
        if seen[-1] >= held // 4:
            return
    raise CheckFailed(
        f"{_OTHERS} times another process held {held} bytes of the device, and get_available_memory(0) had {max(seen)}"
        " bytes less free at most"
    )


@_check(
    seconds=180,
    fix="ask for what programs can have, as MemAvailable of /proc/meminfo is: memory that only holds files is had back"
    " by who asks",
)
def free_memory_counts_what_holds_files(subject: Subject) -> None:
    """On a device whose memory is the machine's, 256 MiB of a file that was read, as a checkpoint is, are free as
    before, more often than not."""
    subject.stands_on("memory of the device")
    total = subject.platform.get_available_memory(0)[1]
    if abs(total - _of_the_machine("MemTotal:")) > total // 8:
        raise NotApplicable("the device has memory of its own, in which no files lie")
    file = subject.scratch / "checkpoint"
    taken = []
    try:
        with file.open("wb+") as opened:
            opened.truncate(_ATTEMPTS * _SIZE)
            for _ in range(
                _ATTEMPTS
            ):  # a part that was never read: what was dropped may be kept at hand, uncounted
                before, free = subject.platform.get_available_memory(0)[0], _free_of_the_machine()
                files = _of_the_machine("Cached:")
                for _ in range(_SIZE // _CHUNK):
                    opened.read(_CHUNK)
                after = subject.platform.get_available_memory(0)[0]
                others = free - _free_of_the_machine()  # what other programs took, or gave back, meanwhile
                if _of_the_machine("Cached:") - files >= _SIZE // 2:
                    taken.append(before - after - others)
    finally:
        file.unlink(missing_ok=True)
    if not taken:
        raise NotApplicable("a file that is read takes no memory here")
    often = sorted(taken)[len(taken) // 2]
    expect(
        often < _SIZE // 2,
        f"a file of {_SIZE} bytes was read {len(taken)} times, and get_available_memory(0) had {often} bytes less free"
        " afterwards, more often than not, beside what other programs took",
    )


def _kept_by_torch(device: Any) -> int | None:
    """Bytes of the device that torch's allocator holds, lent or not; None where it does not tell."""
    told = getattr(getattr(torch, device.type, None), "memory_reserved", None)
    return None if told is None or device.type == "cpu" else int(told())


def _taken(platform: Any, before: int) -> int:
    """Bytes that are free no longer. A system may count what it lends late, and what others do beside it: waits for it
    to be about `_SIZE`."""
    until = time.monotonic() + _LATE
    while True:
        taken: int = before - platform.get_available_memory(0)[0]
        if _SIZE // 2 <= taken <= 3 * _SIZE or time.monotonic() > until:
            return taken
        time.sleep(0.02)


def _pages(size: int) -> mmap.mmap:
    """Memory of the machine's, written to."""
    pages = mmap.mmap(-1, size)
    for start in range(0, size, _CHUNK):
        pages.write(b"7" * min(_CHUNK, size - start))
    return pages


def _free_of_the_machine() -> int:
    return _of_the_machine("MemAvailable:")


def _of_the_machine(line: str) -> int:
    """Bytes, as the system tells them; what no device has where it does not."""
    path = Path("/proc/meminfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((int(one.split()[1]) << 10 for one in lines if one.startswith(line)), -(1 << 60))


def _true_total(subject: Subject) -> int | None:
    """What the system says of the device's memory, independent of the platform."""
    if subject.device.type == "cpu":
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    properties = getattr(getattr(torch, subject.device.type, None), "get_device_properties", None)
    return None if properties is None else int(properties(subject.device.index or 0).total_memory)
