"""Level 3: rows of a KV pool that move: to other slots, and to the CPU and back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from sglang_platform.conformance.check import NotApplicable, check, expect
from sglang_platform.conformance.fixtures.poisoned_pool import PoisonedPool, page_sizes
from sglang_platform.conformance.fixtures.pool_cases import Pool, each_kind
from sglang_platform.conformance.fixtures.row_layouts import as_bits
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import kv_pool
from sglang_platform.conformance.subject import Subject

__all__ = ["refuse_the_hosts_move"]


@dataclass(frozen=True)
class Move:
    kind: str
    source: tuple[int, ...]
    target: tuple[int, ...]
    layers: int = 2
    many: int = 0
    """As many random slots more."""
    slots: str = "int64"
    page_size: int = 0
    """0: the first that is declared. Otherwise a whole page is moved to slots that are none, and slots within it."""


def moves(subject: Subject, rng: random.Random) -> Iterator[Move]:
    shuffled = rng.sample(range(1, 41), 24)
    for kind in subject.declares.kv_kinds:
        yield Move(kind, (), ())
        yield Move(kind, (5,), (9,))
        yield Move(kind, (2, 3, 4), (1, 2, 3))  # one down: the first target is free, each later one a source
        yield Move(kind, (1, 2, 3), (2, 3, 4))  # one up: a copy in order would spread row 1
        yield Move(kind, (6, 7), (7, 6))  # a swap
        yield Move(kind, (5, 5, 6, 5), (9, 12, 10, 11))  # the end of a prefix, for each of its beams
        yield Move(kind, (40, 1), (1, 40))
        yield Move(kind, tuple(shuffled[:12]), tuple(shuffled[6:18]))
        # Slots of several requests in one call: the ends are as far apart as in a run, what lies between is not.
        yield Move(kind, (5, 7, 6, 8), (9, 10, 11, 12))
        yield Move(kind, (5, 6, 7, 8), (9, 11, 10, 12))
        yield Move(kind, (13, 15, 14, 16), (20, 22, 21, 23))
        yield Move(kind, (3, 5, 7, 9), (11, 12, 14, 15))
        yield Move(kind, (5, 6), (7, 5), layers=33)
        if kind == "mha":  # SGLang's full pool, of a model whose layers all have a window (0.5.23)
            yield Move(kind, (5, 6), (7, 5), layers=0)
        yield Move(kind, (2,), (1,), layers=1, many=2500)
        # As the rows of the request table, which a draft's tail is moved by.
        yield Move(kind, tuple(shuffled[6:18]), tuple(shuffled[:12]), slots="int32")
        page = max(page_sizes(subject, kind))
        if page > 1:
            within = tuple(range(1, page + 1))
            yield Move(kind, within, tuple(slot + page + page // 2 for slot in within), page_size=page)
            yield Move(kind, within, tuple(rng.sample(range(1, 3 * page), page)), page_size=page)
            yield Move(kind, (1, 2), (2, 1), page_size=page)


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=moves,
    fix="gather all source rows into a copy before any target row is written, in every layer, keys and values",
)
def move_is_as_if_all_were_read_first(subject: Subject, case: Move) -> None:
    """`move_kv_cache(tgt, src)` copies rows in every layer, also where source and target overlap, where the same was
    moved before and other tokens are there now, and where the model has no layer of the kind."""
    triton = bool(getattr(subject.platform.capabilities, "supports_triton", False))
    more = subject.fixture(case.kind).move_keywords(triton=triton)
    form = {"head_dim": 24, "v_head_dim": 16} if subject.fixture(case.kind).has_heads else {}
    size = max(40, 2 * case.many, 3 * case.page_size)
    more |= {"page_size": case.page_size} if case.page_size else {}
    pool = PoisonedPool(subject, case.kind, size=size, layer_num=case.layers, start_layer=1, **more, **form)
    refuse_the_hosts_move(subject, pool.pool)
    padding = pool.given["page_size"] - 1  # what else lies in the padding page is nobody's
    source, target = ([slot + padding for slot in slots] for slots in (case.source, case.target))
    if case.many:
        free = subject.rng()
        source = free.sample(range(1, size), case.many)
        target = free.sample(range(1, size), case.many)
    dtype = getattr(torch, case.slots)
    whole = "copy whole rows: all bytes that a slot has in each buffer of each layer, and no other slot's"
    for again in ("", " a second time, with other rows"):
        pool.fill()
        pool.pool.move_kv_cache(pool.locations(target, dtype), pool.locations(source, dtype))
        pool.image.move(target, source)
        pool.verify(
            f"moving {len(source)} slots of {dtype}, {source[:12]} to {target[:12]},{again}",
            fix=None if again == "" and set(source) & set(target) else whole,
        )


def refuse_the_hosts_move(subject: Subject, pool: object) -> None:
    """Raises NotApplicable where the platform leaves moving to SGLang's kernel, which needs Triton."""
    if not hasattr(pool, "move_kv_cache"):
        raise NotApplicable("this pool has no move_kv_cache(): SGLang does not move rows of this kind")
    if subject.host != "sglang" or getattr(subject.platform.capabilities, "supports_triton", False):
        return
    for klass in type(pool).__mro__:
        if "_move_kv_cache_impl" in vars(klass) or ("move_kv_cache" in vars(klass)):
            if klass.__module__.startswith("sglang."):
                raise NotApplicable(
                    "the pool leaves moving to SGLang, whose kernel needs Triton (supports_triton is False)"
                )
            return


@dataclass(frozen=True)
class Copy(Pool):
    """`requests` of as many `tokens` are away at once, and come back into other slots, in no order. Without tokens:
    short ones, whose slots are in a row, apart, or mixed."""

    tokens: int = 0
    requests: int = 1
    elsewhere: bool = True
    slots: str = "int64"
    chunk: int = 0
    """Slots that are copied at once; 0: as many as the pool does by itself."""


_LONG = (130, 1, True), (130, 1, False), (4096, 1, True), (8200, 1, True), (3, 40, True)
"""Whole chunks, and more than the 8,192 slots of one."""


def copies(subject: Subject, rng: random.Random) -> Iterator[Copy]:
    for pool in each_kind(subject, rng):
        for chunk, slots in ((8192, "int64"), (3, "int32")):
            yield Copy(**vars(pool), chunk=chunk, slots=slots)
        row, size = subject.fixture(pool.kind).rows[0], -(-8240 // pool.page_size) * pool.page_size
        large = replace(pool, row=row, size=size, layers=2, start_layer=1)
        for tokens, requests, elsewhere in _LONG:
            yield Copy(**vars(large), tokens=tokens, requests=requests, elsewhere=elsewhere)


Requests = list[list[int]]


def _trips(pool: PoisonedPool, case: Copy) -> Iterator[tuple[Requests, Requests]]:
    """The slots of requests, and those that they come back to."""
    if case.tokens:
        here = pool.some_slots(case.tokens * case.requests)
        there = pool.some_slots(len(here)) if case.elsewhere else here
        each = [slice(first, first + case.tokens) for first in range(0, len(here), case.tokens)]
        yield [here[one] for one in each], [there[one] for one in each]
        return
    few = min(4, case.size // 3)
    run = list(range(case.page_size, case.page_size + few))
    slots = [slot for slot in pool.some_slots(16) if slot not in run]
    yield [slots[:few], run], [slots[few : 2 * few], slots[:few]]
    # A request that comes back gets the pages that are free then: upwards, with those of others between.
    apart = list(range(case.page_size, pool.last_slot + 1, 2))[:few]
    run = run[: len(apart)]
    yield [run], [apart]
    # Ends as far apart as in a run, and what lies between in another order.
    mixed = [run[0], *run[-2:0:-1], run[-1]]
    yield [mixed], [apart]
    yield [apart], [mixed]


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=copies,
    founds="copies of the {kind} pool",
    seconds=120,
    fix="copy and load all slots of every layer, in each of its buffers, chunk by chunk, each row into the slot of its"
    " own place in `indices`: slots are in the order of the request's tokens, and in no other",
)
def cpu_copy_comes_back(subject: Subject, case: Copy) -> None:
    """`get_cpu_copy()` of a request's slots, loaded into other slots, is the same rows: of short requests and of 8,200
    tokens, one or 40 away at once, in one chunk or several, of slots of 64 bits or of 32, in any order."""
    pool = case.build(subject)
    if case.chunk:
        pool.pool.cpu_offloading_chunk_size = case.chunk
    pool.fill()
    for here, there in _trips(pool, case):
        kept = [{name: pool.image.read(name, one) for name in pool.image.expected} for one in here]
        dtype = getattr(torch, case.slots)
        copied, as_copied = [], []
        for one in here:
            copied.append(pool.pool.get_cpu_copy(pool.locations(one, dtype)))
            subject.synchronize()
            as_copied.append([part.clone() for part in _tensors_of(copied[-1])])
        _expect_kept(copied, as_copied, f"get_cpu_copy() of {len(here)} requests, one after the other,")
        every = [slot for one in here for slot in one]
        for layer_id in pool.layers:  # the slots are given to other requests meanwhile
            pool.store(layer_id, every, pool.random_rows(len(every)))
        subject.synchronize()
        _expect_kept(copied, as_copied, "a store into the slots that were copied")
        for one, copy, rows in zip(there, copied, kept, strict=True):
            pool.pool.load_cpu_copy(copy, pool.locations(one, dtype))
            for name, bytes_of_one in rows.items():
                pool.image.store(name, one, bytes_of_one)
        pool.verify(f"copying {len(every)} slots of {len(here)} requests to the CPU and back into others")


def _tensors_of(copy: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_flatten(copy)[0] if isinstance(leaf, torch.Tensor)]


def _expect_kept(copied: list[Any], as_copied: list[list[torch.Tensor]], after: str) -> None:
    for at, (one, before) in enumerate(zip(copied, as_copied, strict=True)):
        same = [as_bits(now).equal(as_bits(then)) for now, then in zip(_tensors_of(one), before, strict=True)]
        expect(
            all(same),
            f"after {after} what was copied of request {at} of {len(copied)} is other than before: {same.count(False)}"
            f" of its {len(same)} tensors",
            fix="answer memory of its own in each call of get_cpu_copy(): the host keeps what it has until the request"
            " comes back",
        )
