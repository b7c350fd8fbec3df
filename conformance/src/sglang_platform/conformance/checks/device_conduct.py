"""Level 2: what the device's operations do, how long they take, and that they change nothing else."""

from __future__ import annotations

import contextlib
import random
import time
from functools import partial

from sglang_platform.conformance.check import Blocked, check, expect
from sglang_platform.conformance.checks.lifecycle import life_of_a_worker
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.probes.lifecycle import SEED, drawn_numbers, drawn_on, operations
from sglang_platform.conformance.probes.traces import changes, read_all
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_SECONDS = 0.1
_AT_EACH_STEP = 0.005
"""Seconds, for what the host may call at each step of decoding, which takes some thousandths of a second."""
_OF_A_STEP = ("get_device(", "set_device(", "synchronize(", "inference_mode(")
_ONCE = (
    *("get_device_name", "get_device_uuid", "get_device_capability", "get_device_total_memory"),
    *(f"seed_everything({SEED})", "verify_quantization"),
)
_ATTEMPTS = 7
_SIZE = 256 << 20
_SEEDS = (SEED, SEED, 0, 0, SEED + (1 << 8), SEED + (1 << 16), SEED + (1 << 24), (1 << 30) + 7)
"""The first two come again; some others are like it in their low bits."""


_check = partial(check, level=Level.CONTRACT, needs="device")


@_check(
    fix="ask the driver once and keep what cannot change; do not wait, poll with pauses or start programs in a call"
    " that the host makes while it serves"
)
def device_operations_are_quick(subject: Subject) -> None:
    """With nothing queued, the quickest of some calls of each operation that the host makes while it serves takes no
    more than a tenth of a second; of those that it may make at each step, no more than five thousandths."""
    for call, operation in operations(subject.platform).items():
        if call.startswith(_ONCE):
            continue
        most, tries = (_AT_EACH_STEP, 20) if call.startswith(_OF_A_STEP) else (_SECONDS, 6)
        shortest = float("inf")
        for _ in range(tries):
            started = time.perf_counter()
            with contextlib.suppress(NotImplementedError, ValueError):  # other checks tell what must be there
                operation()
            shortest = min(shortest, time.perf_counter() - started)
            if shortest <= most:
                break
        expect(
            shortest <= most,
            f"{call} takes {shortest:.2g} s, each time, and may take {most:g} s",
            case={"call": call},
        )


@_check(
    seconds=200,
    fix="seed Python's random, numpy where it is installed, and torch (torch.manual_seed: every device) with the number"
    " that is given and nothing else, no process, rank or time in it; do nothing for None",
)
def seeds_are_followed(subject: Subject) -> None:
    """`seed_everything(n)` makes random numbers of Python, numpy and torch, on the CPU and on the device, follow from n
    alone, alike on a second device and in another process; None changes nothing, and neither changes torch's
    defaults."""
    import torch

    seed, draw = subject.platform.seed_everything, partial(drawn_numbers, subject.device.type)
    states = random.getstate(), torch.random.get_rng_state()
    try:
        before = read_all(("torch",))
        drawn = {}
        for number in _SEEDS:
            answer = seed(number)
            expect(answer is None, f"seed_everything({number}) answers {answer!r}, not None")
            now = draw()
            _expect_same(
                drawn.get(number, now), now, f"seed_everything({number}), and again,", "it is not seeded"
            )
            drawn[number] = now
        for source in drawn[SEED]:
            same = [n for n in drawn if n != SEED and drawn[n][source] == drawn[SEED][source]]
            expect(
                not same,
                f"{source} gives the same numbers after seed_everything({same and same[0]}) as after"
                f" seed_everything({SEED})",
                case={"source": source},
            )
        seed(SEED)
        first_two = range(min(subject.device_count(), 2))
        by_device = [drawn_on(torch.device(subject.device.type, index)) for index in first_two]
        expect(
            all(one == by_device[0] for one in by_device),
            f"after seed_everything({SEED}) the second device gives other random numbers than the first: ranks sample"
            " other tokens",
            fix="seed every device with the number itself: manual_seed_all(n) adds nothing to it",
        )
        seed(SEED)
        draw()
        wanted = draw()
        seed(SEED)
        draw()
        seed(None)
        expect(draw() == wanted, "seed_everything(None) changes the random numbers that come next")
        found = [one for group in changes(before, read_all(("torch",))).values() for one in group]
        expect(not found, f"seed_everything() leaves traces: {'; '.join(found)}")
        told = life_of_a_worker(subject)
        if "drawn" not in told:
            raise Blocked("init_backend() raises: see contract.init_backend_can_be_called_twice")
        why = "ranks that differ sample other tokens"
        _expect_same(drawn[SEED], told["drawn"], f"seed_everything({SEED}) in another process", why)
    finally:
        random.setstate(states[0])
        torch.random.set_rng_state(states[1])


def _expect_same(wanted: dict[str, list[float]], got: dict[str, list[float]], after: str, why: str) -> None:
    for source, numbers in wanted.items():
        what = f"after {after} {source} gives other numbers: {why}"
        expect(got[source] == numbers, what, case={"source": source})


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
