"""Level 3: KV pools at the numbers of rows that launches, chunks and 32 bits are too small for."""

from __future__ import annotations

import inspect
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from sglang_platform.conformance.check import NotApplicable, check
from sglang_platform.conformance.fixtures.poisoned_pool import PoisonedPool
from sglang_platform.conformance.fixtures.pool_cases import Pool, each_kind
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import kv_kind, kv_pool
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_HEADS = 8
_ROWS = 65_700
"""Rows of a head in one store, more than the 65,535 that a grid's second axis has."""

_REQUEST = 8_200
"""Tokens of a long request, more than the 8,192 slots of a chunk."""

_WHOLE = 4096
"""Tokens of a request that is whole chunks, whatever a chunk is."""

_SHUFFLED = 130
_AWAY = 40


@dataclass(frozen=True)
class WindowRow:
    """`window`: (heads, dim of keys, dim of values) of the layers with a window; the others have `plain`."""

    plain: tuple[int, int, int]
    window: tuple[int, int, int]


def window_rows(subject: Subject, rng: random.Random) -> Iterator[WindowRow]:
    """Each size another than the plain one, alone and together."""
    if "mha" in subject.declares.kv_kinds:
        for window in ((4, 16, 8), (2, 24, 8), (2, 16, 16), (4, 8, 24)):
            yield WindowRow((2, 16, 8), window)


@check(
    level=Level.MEMORY,
    requires=[kv_kind("mha")],
    cases=window_rows,
    fix="take swa_head_num, swa_head_dim and swa_v_head_dim where they are given, each for itself, in place of"
    " head_num, head_dim and v_head_dim",
)
def window_layers_have_their_own_rows(subject: Subject, case: WindowRow) -> None:
    """The pool of a model's layers with a window is made with the sizes of all its layers and with theirs: rows have
    theirs, and what is stored there is read back."""
    hosts = (one for one in type(subject.pool("mha")).__mro__ if one.__module__.startswith("sglang."))
    base = next(hosts, None)
    if base is not None and "swa_head_num" not in inspect.signature(base).parameters:
        raise NotApplicable("this release of SGLang makes no pools with sizes of layers with a window")
    names = "head_num", "head_dim", "v_head_dim"
    sizes = dict(zip(names, case.plain, strict=True))
    sizes |= {f"swa_{name}": size for name, size in zip(names, case.window, strict=True)}
    pool = PoisonedPool(subject, "mha", size=24, **sizes)
    slots = pool.some_slots(9)
    pool.store(pool.layers[-1], slots, pool.random_rows(9))
    pool.verify(f"storing rows of {case.window} in a pool of {sizes}")


def wide_stores(subject: Subject, rng: random.Random) -> Iterator[Pool]:
    """One of each kind, small rows: 8 heads of keys and values, or as many latent rows as they are together."""
    for pool in each_kind(subject, rng):
        heads = subject.fixture(pool.kind).has_heads
        row = (_HEADS, 8, 4) if heads else subject.fixture(pool.kind).rows[0]
        rows = -(-_ROWS // (_HEADS if heads else 1))
        size = -(-(rows + 70) // pool.page_size) * pool.page_size
        yield replace(pool, row=row, size=size, layers=1, start_layer=0)


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=wide_stores,
    seconds=120,
    fix="launch over the first axis of the grid, which takes 2**31 blocks: the others take 65,535, and a prefill of"
    " 8,192 tokens has as many rows of 8 heads",
)
def stores_of_many_rows(subject: Subject, case: Pool) -> None:
    """One store of 65,700 rows of heads, as a prefill of 8,213 tokens with 8 heads has, writes all of them, of keys and
    of values."""
    pool = case.build(subject)
    tokens = -(-_ROWS // (_HEADS if pool.fixture.has_heads else 1))
    slots = pool.some_slots(tokens)
    pool.store(0, slots, pool.random_rows(tokens))
    pool.verify(f"storing {tokens} tokens at once")


def long_requests(subject: Subject, rng: random.Random) -> Iterator[Pool]:
    """One of each kind with room for a long request."""
    for pool in each_kind(subject, rng):
        size = -(-(_REQUEST + 40) // pool.page_size) * pool.page_size
        row = subject.fixture(pool.kind).rows[0]
        yield replace(pool, row=row, size=size, layers=2, start_layer=1)


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=long_requests,
    seconds=120,
    fix="copy and load all slots, chunk by chunk, each row into the slot of its own place in `indices`: slots are in"
    " the order of the request's tokens, and in no other",
)
def long_requests_come_back(subject: Subject, case: Pool) -> None:
    """A request of 8,200 tokens, one of 130, one of 4,096, and 40 of 3 that are away at once, whose slots are in no
    order, come back from the CPU into other slots in no order, or into the same, each token into its own, with the
    chunks that the pool has by itself."""
    pool = case.build(subject)
    pool.fill()
    for tokens, requests, elsewhere in (
        (_SHUFFLED, 1, True),
        (_SHUFFLED, 1, False),
        (_WHOLE, 1, True),
        (_REQUEST, 1, True),
        (3, _AWAY, True),
    ):
        here = pool.some_slots(tokens * requests)
        there = pool.some_slots(tokens * requests) if elsewhere else here
        kept = {name: pool.image.read(name, here) for name in pool.image.expected}
        each = [slice(first, first + tokens) for first in range(0, tokens * requests, tokens)]
        copies = [pool.pool.get_cpu_copy(pool.locations(here[one])) for one in each]
        for layer_id in pool.layers:  # the slots are given to other requests meanwhile
            pool.store(layer_id, here, pool.random_rows(len(here)))
        for one, copy in zip(each, copies, strict=True):
            pool.pool.load_cpu_copy(copy, pool.locations(there[one]))
        for name, rows in kept.items():
            pool.image.store(name, there, rows)
        of = f"of {requests} requests " if requests > 1 else ""
        into = "others" if elsewhere else "the same"
        pool.verify(f"copying {tokens} slots {of}in no order to the CPU and back into {into}")
