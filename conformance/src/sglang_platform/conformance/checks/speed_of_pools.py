"""Level 3: the time that stores, moves and copies back to a KV pool take, beside torch's own copy, and how it grows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch

from sglang_platform.conformance.check import check, mended_by
from sglang_platform.conformance.checks.pool_moves import refuse_the_hosts_move
from sglang_platform.conformance.fixtures.poisoned_pool import layer_named, page_sizes
from sglang_platform.conformance.fixtures.timing import (
    Work,
    expect_growth,
    expect_like_torch,
    expect_ratio,
)
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import kv_pool
from sglang_platform.conformance.subject import Subject

_TOKENS = (256, 1024, 4096)
_SMALL = 2048
_LARGE_BYTES = 64 << 20
_MOST_SLOTS = 1 << 20
"""Of a pool that is so large that a copy of it shows beside a few rows."""

_FEW = 64


class TimedPool:
    """A pool of `slots` slots in one layer, and rows for `tokens` of them."""

    def __init__(self, subject: Subject, kind: str, slots: int, tokens: int) -> None:
        fixture = subject.fixture(kind)
        page = page_sizes(subject, kind)[0]
        triton = bool(getattr(subject.platform.capabilities, "supports_triton", False))
        given = {"size": fixture.whole(slots, page), "page_size": page, "layer_num": 1}
        given |= fixture.move_keywords(triton=triton)
        self.pool = subject.pool(kind, **given)
        shapes = fixture.row_shapes(subject.pool_keywords(kind, **given))
        generator = subject.torch_rng()
        self.dtype: torch.dtype = getattr(torch, subject.declares.kv_dtypes[0])
        self.rows = [
            torch.randn((tokens, *shape), generator=generator).to(self.dtype).to(subject.device)
            for shape in shapes.values()
        ]
        self.slots = (torch.randperm(slots - 1, generator=generator)[:tokens] + 1).to(subject.device)
        self.layer = layer_named(0)

    def store(self) -> None:
        self.pool.set_kv_buffer(self.layer, self.slots, self.rows[0], self.rows[-1])

    def come_back(self) -> None:
        self.pool.load_cpu_copy(self._away, self.slots)

    @cached_property
    def _away(self) -> Any:
        return self.pool.get_cpu_copy(self.slots)

    def move(self) -> None:
        half = len(self.slots) // 2
        self.pool.move_kv_cache(self.slots[:half], self.slots[half : 2 * half])


_CALLS: dict[str, tuple[Callable[[TimedPool], None], tuple[int, ...], str]] = {
    "set_kv_buffer": (
        TimedPool.store,
        (_FEW, _TOKENS[-1]),
        "write all rows of a call at once, one operation for keys and one for values, and only those: no loop over"
        " tokens, no copy of the whole buffer, no wait",
    ),
    "move_kv_cache": (
        TimedPool.move,
        _TOKENS[-1:],
        "gather and scatter the rows of a layer at once, and only those that move",
    ),
    "load_cpu_copy": (
        TimedPool.come_back,
        _TOKENS[-1:],
        "write all rows of a layer at once: one copy to the device and one operation, not one of each for every slot",
    ),
}
"""Of each call how it is made, of how many slots it is timed beside torch, and the fix."""


@dataclass(frozen=True)
class TimedCall:
    call: str
    kind: str


def timed_calls(subject: Subject, rng: random.Random) -> Iterator[TimedCall]:
    yield from (TimedCall(call, kind) for kind in subject.declares.kv_kinds for call in _CALLS)


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=timed_calls,
    seconds=300,
    fix="read and write all rows of a call at once, and only those",
)
def pool_time_grows_with_the_slots(subject: Subject, case: TimedCall) -> None:
    """Storing 4,096 slots, moving half of them into the others, or bringing a retracted request of as many back from
    host memory takes about 16 times as long as of 256, whatever the size of the pool, and not 50 times as long as torch
    takes to write the same rows; nor does storing 64."""
    call, beside_torch, fix = _CALLS[case.call]
    little = TimedPool(subject, case.kind, _SMALL, _FEW)
    if call is TimedPool.move:
        refuse_the_hosts_move(subject, little.pool)

    def made(tokens: int, slots: int = 2 * _TOKENS[-1]) -> TimedPool:
        return TimedPool(subject, case.kind, slots, tokens)

    def what(tokens: int) -> str:
        return f"{case.call}() of {tokens} slots of a pool of kind {case.kind}"

    with mended_by(fix):
        whole = f"{case.call}() of a pool of kind {case.kind}"
        expect_growth(subject, _TOKENS, lambda n: Work(partial(call, made(n))), what=whole, of="slots")
        row = sum(rows[0].nbytes for rows in little.rows)
        slots = min(_MOST_SLOTS, max(32 * _SMALL, _LARGE_BYTES // row))
        expect_ratio(
            subject,
            Work(partial(call, made(_FEW, slots)), new_memory=True),
            Work(partial(call, little), new_memory=True),
            what=f"{what(_FEW)} that has {slots}",
            beside=f"in one of {_SMALL} slots",
        )
        for tokens in beside_torch:
            timed = made(tokens)
            plain = _written_by_torch(timed, of_the_host=call is TimedPool.come_back)
            expect_like_torch(subject, Work(partial(call, timed)), plain, what(tokens))


def _written_by_torch(timed: TimedPool, *, of_the_host: bool) -> Callable[[], None]:
    given = [rows.cpu() if of_the_host else rows for rows in timed.rows]
    plain = [
        torch.zeros((2 * _TOKENS[-1], *rows.shape[1:]), dtype=rows.dtype, device=rows.device)
        for rows in timed.rows
    ]

    def write() -> None:
        for buffer, rows in zip(plain, given, strict=True):
            buffer[timed.slots] = rows.to(buffer.device)

    return write
