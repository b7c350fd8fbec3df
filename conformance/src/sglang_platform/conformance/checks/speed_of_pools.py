"""Level 3: the time that stores, moves and copies back to a KV pool take, beside torch's own copy, and how it grows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch

from sglang_platform.conformance.check import check
from sglang_platform.conformance.checks.pool_moves import refuse_the_hosts_move
from sglang_platform.conformance.fixtures.poisoned_pool import layer_named, page_sizes
from sglang_platform.conformance.fixtures.timing import Work, expect_growth, expect_ratio
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import kv_pool
from sglang_platform.conformance.subject import Subject

_TOKENS = (256, 1024, 4096)
_SMALL = 2048
_LARGE_BYTES = 64 << 20
_MOST_SLOTS = 1 << 20
"""Of a pool that is so large that a copy of it shows beside a few rows."""

_SLACK = 8.0
_TORCH = 50.0
_FEW = 64


@dataclass(frozen=True)
class StoredKind:
    kind: str


def stored_kinds(subject: Subject, rng: random.Random) -> Iterator[StoredKind]:
    for kind in subject.declares.kv_kinds:
        yield StoredKind(kind)


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


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=stored_kinds,
    seconds=300,
    fix="write all rows of a call at once, and only those: no loop over tokens, no copy of the whole buffer",
)
def store_time_grows_with_the_tokens(subject: Subject, case: StoredKind) -> None:
    """Storing 4,096 tokens takes about 16 times as long as 256, whatever the size of the pool, and neither 4,096
    nor 64 take 50 times as long as torch takes to write the same rows."""

    def storing(tokens: int) -> Work:
        return Work(TimedPool(subject, case.kind, 2 * _TOKENS[-1], tokens).store)

    what = f"set_kv_buffer() of a pool of kind {case.kind}"
    expect_growth(subject, _TOKENS, storing, slack=_SLACK, what=what, of="tokens")
    _expect_whatever_the_pool(subject, case, TimedPool.store, f"{what} of {{}} slots, {_FEW} tokens,")
    for tokens in (_FEW, _TOKENS[-1]):
        timed = TimedPool(subject, case.kind, 2 * _TOKENS[-1], tokens)
        expect_ratio(
            subject,
            Work(timed.store),
            Work(_written_by_torch(timed)),
            most=_TORCH,
            what=f"{what}, {tokens} tokens,",
            beside="writing the rows into plain tensors",
            fix="write the rows in one operation for keys and one for values, and wait for nothing",
        )


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=stored_kinds,
    seconds=300,
    fix="gather and scatter the rows of a layer at once, and only those that move",
)
def move_time_grows_with_the_slots(subject: Subject, case: StoredKind) -> None:
    """Moving 2,048 slots takes about 16 times as long as 128, whatever the size of the pool, and not 50 times as long
    as torch takes to copy the same rows."""
    refuse_the_hosts_move(subject, TimedPool(subject, case.kind, _SMALL, _FEW).pool)

    def moving(tokens: int) -> Work:
        return Work(TimedPool(subject, case.kind, 2 * _TOKENS[-1], tokens).move)

    what = f"move_kv_cache() of a pool of kind {case.kind}"
    expect_growth(subject, _TOKENS, moving, slack=_SLACK, what=what, of="slots, read and written,")
    _expect_whatever_the_pool(subject, case, TimedPool.move, f"{what} of {{}} slots, {_FEW // 2} of them,")
    timed = TimedPool(subject, case.kind, 2 * _TOKENS[-1], _TOKENS[-1])
    expect_ratio(
        subject,
        Work(timed.move),
        Work(_written_by_torch(timed)),
        most=_TORCH,
        what=f"{what}, {_TOKENS[-1] // 2} slots,",
        beside="writing twice as many rows into plain tensors",
    )


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=stored_kinds,
    seconds=300,
    fix="write all rows of a layer at once: one copy to the device and one operation, not one of each for every slot",
)
def requests_come_back_at_once(subject: Subject, case: StoredKind) -> None:
    """What a retracted request of 4,096 tokens had, back from host memory, is not 50 times as long on its way as torch
    takes to write the same rows."""
    timed = TimedPool(subject, case.kind, 2 * _TOKENS[-1], _TOKENS[-1])
    expect_ratio(
        subject,
        Work(timed.come_back),
        Work(_written_by_torch(timed, of_the_host=True)),
        most=_TORCH,
        what=f"load_cpu_copy() of {_TOKENS[-1]} slots of a pool of kind {case.kind}",
        beside="copying the rows to the device and writing them into plain tensors",
    )


def _expect_whatever_the_pool(
    subject: Subject, case: StoredKind, call: Callable[[TimedPool], None], what: str
) -> None:
    """A call on few slots takes as long in a large pool as in a small one; `what` has a place for the pool's size."""
    little = TimedPool(subject, case.kind, _SMALL, _FEW)
    row = sum(rows[0].nbytes for rows in little.rows)
    slots = min(_MOST_SLOTS, max(32 * _SMALL, _LARGE_BYTES // row))
    small, large = (partial(call, pool) for pool in (little, TimedPool(subject, case.kind, slots, _FEW)))
    expect_ratio(
        subject,
        Work(large, new_memory=True),
        Work(small, new_memory=True),
        most=_SLACK,
        what=what.format(slots),
        beside=f"in one of {_SMALL} slots",
    )


def _written_by_torch(timed: TimedPool, *, of_the_host: bool = False) -> Callable[[], None]:
    given = [rows.cpu() if of_the_host else rows for rows in timed.rows]
    plain = [
        torch.zeros((2 * _TOKENS[-1], *rows.shape[1:]), dtype=rows.dtype, device=rows.device)
        for rows in timed.rows
    ]

    def write() -> None:
        for buffer, rows in zip(plain, given, strict=True):
            buffer[timed.slots] = rows.to(buffer.device)

    return write
