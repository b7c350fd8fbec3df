"""Level 2: what the device's operations do, how long they take, and that they change nothing else."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from sglang_platform.conformance.check import check, expect
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.probes.traces import changes, read_all
from sglang_platform.conformance.subject import Subject

if TYPE_CHECKING:
    import torch

__all__: list[str] = []

_SECONDS = 0.1
_AT_EACH_STEP = 0.005
"""Seconds, for what the host may call at each step of decoding, which takes some thousandths of a second."""
_OF_A_STEP = ("get_device(", "set_device(", "synchronize(", "inference_mode(")
_ATTEMPTS = 7
_SIZE = 256 << 20
_SEEDS = (11, 11, 0, 0, 11 + (1 << 8), 11 + (1 << 16), 11 + (1 << 24), (1 << 30) + 7)
"""The first two come again; some others are like it in their low bits."""


def _operations(subject: Subject) -> dict[str, Callable[[], Any]]:
    """The calls of the contract that a host makes at any time, with a device that is in use."""
    platform = subject.platform
    device = platform.get_device(0)

    def entered(context: Any) -> None:
        with context:
            pass

    asked: dict[str, Callable[[], Any]] = {
        "get_device(0)": lambda: platform.get_device(0),
        "get_device(None)": lambda: platform.get_device(None),
        f"set_device({device!r})": lambda: platform.set_device(device),
        "get_device_name()": platform.get_device_name,
        "get_device_uuid()": platform.get_device_uuid,
        "get_device_capability()": platform.get_device_capability,
        "get_device_total_memory()": platform.get_device_total_memory,
        "get_available_memory()": platform.get_available_memory,
        "get_current_memory_usage()": platform.get_current_memory_usage,
        "empty_cache()": platform.empty_cache,
        "synchronize()": platform.synchronize,
        "is_pin_memory_available()": platform.is_pin_memory_available,
        "get_torch_distributed_backend_str()": platform.get_torch_distributed_backend_str,
        "get_communicator_class()": platform.get_communicator_class,
        "inference_mode()": lambda: entered(platform.inference_mode()),
        "reindex_device_id(0)": lambda: entered(platform.reindex_device_id(0)),
        "seed_everything(None)": lambda: platform.seed_everything(None),
    }
    return asked


def _quietly(operation: Callable[[], Any]) -> None:
    with contextlib.suppress(NotImplementedError):  # other checks tell what must be there
        operation()


_check = partial(check, level=Level.CONTRACT, needs="device")


@_check(
    fix="ask the driver once and keep what cannot change; do not wait, poll with pauses or start programs in a call"
    " that the host makes while it serves"
)
def device_operations_are_quick(subject: Subject) -> None:
    """With nothing queued, the quickest of some calls of each operation that the host makes while it serves takes no
    more than a tenth of a second; of those that it may make at each step, no more than five thousandths."""
    asked = _operations(subject)
    once = ("get_device_name", "get_device_uuid", "get_device_capability", "get_device_total_memory")
    for call, operation in asked.items():
        if call.startswith(once):
            continue
        most, tries = (_AT_EACH_STEP, 20) if call.startswith(_OF_A_STEP) else (_SECONDS, 6)
        shortest = float("inf")
        for _ in range(tries):
            started = time.perf_counter()
            _quietly(operation)
            shortest = min(shortest, time.perf_counter() - started)
            if shortest <= most:
                break
        expect(
            shortest <= most,
            f"{call} takes {shortest:.2g} s, each time, and may take {most:g} s",
            case={"call": call},
        )


@_check(
    fix="seed Python's random, numpy where it is installed, and torch (torch.manual_seed: every device); do nothing"
    " for None"
)
def seeds_are_followed(subject: Subject) -> None:
    """`seed_everything(n)` makes random numbers of Python, numpy and torch, on the CPU and on the device, follow from n
    alone, alike on a second device; None changes nothing, and neither changes torch's defaults."""
    import torch

    seed = subject.platform.seed_everything
    with _random_numbers_kept():
        before = read_all(("torch",))
        drawn = {}
        for number in _SEEDS:
            answer = seed(number)
            expect(answer is None, f"seed_everything({number}) answers {answer!r}, not None")
            now = _drawn(subject)
            for source, numbers in drawn.get(number, {}).items():
                expect(
                    now[source] == numbers,
                    f"after seed_everything({number}), and again, {source} gives other numbers: it is not seeded",
                    case={"source": source},
                )
            drawn[number] = now
        for source in drawn[11]:
            same = [number for number in drawn if number != 11 and drawn[number][source] == drawn[11][source]]
            expect(
                not same,
                f"{source} gives the same numbers after seed_everything({same and same[0]}) as after"
                " seed_everything(11)",
                case={"source": source},
            )
        seed(11)
        first_two = range(min(subject.device_count(), 2))
        by_device = [_drawn_on(torch.device(subject.device.type, index)) for index in first_two]
        expect(
            all(one == by_device[0] for one in by_device),
            "after seed_everything(11) the second device gives other random numbers than the first: ranks sample other"
            " tokens",
            fix="seed every device with the number itself: manual_seed_all(n) adds nothing to it",
        )
        seed(11)
        _drawn(subject)
        wanted = _drawn(subject)
        seed(11)
        _drawn(subject)
        seed(None)
        got = _drawn(subject)
        expect(got == wanted, "seed_everything(None) changes the random numbers that come next")
        found = [one for group in changes(before, read_all(("torch",))).values() for one in group]
        expect(not found, f"seed_everything() leaves traces: {'; '.join(found)}")


def _drawn(subject: Subject) -> dict[str, list[float]]:
    """The next numbers of each source."""
    import torch

    found = {"random": [random.random() for _ in range(4)], "torch on the CPU": torch.rand(4).tolist()}
    with contextlib.suppress(ImportError):
        import numpy

        found["numpy"] = [float(number) for number in numpy.random.rand(4)]
    on_device = _drawn_on(subject.device)
    if on_device is not None:
        found[f"torch on {subject.device.type}"] = on_device
    return found


def _drawn_on(device: torch.device) -> list[float] | None:
    """The next numbers of a device; None on a CPU, and where it draws none."""
    import torch

    if device.type == "cpu":
        return None
    with contextlib.suppress(NotImplementedError):  # torch's word for an operator that a device does not have
        return torch.empty(4, device=device).uniform_().tolist()
    return None


@contextlib.contextmanager
def _random_numbers_kept() -> Iterator[None]:
    import torch

    states = random.getstate(), torch.random.get_rng_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        torch.random.set_rng_state(states[1])


@_check(
    fix="return bytes that all processes have in use, total - free: the host of an out-of-tree device takes"
    " get_device_total_memory() - get_current_memory_usage() as free. The peak of this process alone is enough where"
    " nobody else uses the device; what this process holds is part of total - free, and counts once"
)
def memory_usage_covers_allocations(subject: Subject) -> None:
    """With 256 MiB allocated, `get_current_memory_usage()` is at least that, in bytes, and it does not fall (each of
    seven times); on an out-of-tree device no more memory is left beside it than is free, and no less than what is free
    beside the peak of this process."""
    subject.stands_on("memory of the device")
    import resource

    import torch

    platform, device = subject.platform, subject.platform.get_device(0)
    falls, beyond, missing = [], [], []
    most = getattr(getattr(torch, device.type, None), "max_memory_allocated", lambda: 0)
    for _ in range(_ATTEMPTS):
        before = platform.get_current_memory_usage(None)
        held = torch.full((_SIZE,), 7, dtype=torch.uint8, device=device)
        subject.synchronize()
        during, named = platform.get_current_memory_usage(None), platform.get_current_memory_usage(device)
        free, total = platform.get_available_memory(0)
        peak = max(most(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
        del held
        for usage in (during, named):
            expect(
                usage >= _SIZE, f"{_SIZE} bytes are allocated, and get_current_memory_usage() answers {usage}"
            )
        falls.append(before - during)
        beyond.append((total - during) - free)
        missing.append(during - max(total - free, peak))
    # Others use the same memory meanwhile, and give some back.
    fall, more, less = min(falls), min(beyond), min(missing)
    expect(
        fall <= _SIZE // 4,
        f"{_SIZE} bytes are allocated, and get_current_memory_usage() falls by {fall:.0f} bytes or more",
    )
    expect(
        more <= 0.1 * total or not platform.is_out_of_tree(),
        f"get_current_memory_usage() answers {during:.0f} of {total} bytes, and only {free} are free: the host takes"
        f" {more:.0f} bytes for free that others use",
    )
    expect(
        less <= 0.1 * total or not platform.is_out_of_tree(),
        f"get_current_memory_usage() answers {during:.0f} of {total} bytes, of which {free} are free, and this process"
        f" had {peak} at most: the host leaves {less:.0f} bytes unused that nobody has",
    )
