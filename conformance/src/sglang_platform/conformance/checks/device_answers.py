"""Level 2: what the device's operations say follows what happens on the device, for each device of the machine."""

from __future__ import annotations

import mmap
import time
from pathlib import Path
from typing import Any

from sglang_platform.conformance.check import CheckFailed, NotApplicable, check, expect
from sglang_platform.conformance.checks.device import whoami
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.probes.fresh import beside
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_SIZE = 256 << 20
_ATTEMPTS = 6
_OTHERS = 8
_CHUNK = 1 << 20
_LATE = 2.0
"""Seconds."""


@check(
    level=Level.CONTRACT,
    needs="device",
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
    import torch

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


@check(
    level=Level.CONTRACT,
    needs="device",
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


@check(
    level=Level.CONTRACT,
    needs="device",
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
    import torch

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


@check(
    level=Level.CONTRACT,
    needs="device",
    fix="answer for the device of the index that is given; the default is index 0",
)
def devices_answer_by_index(subject: Subject) -> None:
    """Each device of the machine answers by its index: device, name, uuid (each another), capability and memory;
    without an index device 0 does, and the group of a rank is on the device of that rank."""
    subject.stands_on("memory of the device")
    platform, count = subject.platform, subject.device_count()
    uuids: dict[Any, int] = {}
    for index in range(count):
        device = platform.get_device(index)
        expect(
            device.index in (None, index) if count == 1 else device.index == index,
            f"get_device({index}) answers {device!r}, and there are {count} devices",
            case={"index": index},
        )
        uuid = platform.get_device_uuid(index)
        expect(
            uuid not in uuids,
            f"get_device_uuid() answers {uuid!r} for device {uuids.get(uuid)} and for device {index}",
            case={"index": index},
        )
        uuids[uuid] = index
        total = platform.get_device_total_memory(index)
        free, of = platform.get_available_memory(index)
        expect(
            0 <= free <= of and abs(of - total) <= 0.05 * total,
            f"device {index} has {total} bytes, and get_available_memory({index}) answers ({free}, {of})",
            case={"index": index},
        )
        expect(platform.get_device_name(index), f"get_device_name({index}) is empty", case={"index": index})
        platform.get_device_capability(index)
    for method in ("get_device", "get_device_name", "get_device_uuid", "get_device_capability"):
        without, with_index = getattr(platform, method)(), getattr(platform, method)(0)
        expect(
            without == with_index,
            f"{method}() answers {without!r}, and {method}(0) {with_index!r}",
            case={"method": method},
        )
    if not platform.is_out_of_tree() or not hasattr(platform, "get_group_coordinator_device"):
        return  # the host asks nobody else
    for rank in range(count):
        group = platform.get_group_coordinator_device(rank)
        expect(
            group.type == "cpu" or count == 1 or group.index == rank,
            f"get_group_coordinator_device({rank}) answers {group!r}, and there are {count} devices",
            fix="return get_device(local_rank), or torch.device('cpu') where groups exchange through the host",
            case={"rank": rank},
        )
