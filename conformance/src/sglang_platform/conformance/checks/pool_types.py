"""Level 3: the types of a pool: parts of latent rows in the type that is asked for, and types that are not declared."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from sglang_platform.conformance.check import CheckFailed, NotApplicable, check, expect, mended_by
from sglang_platform.conformance.fixtures.poisoned_pool import PoisonedPool
from sglang_platform.conformance.fixtures.pool_cases import Pool, each_kind_and_dtype, latent_pools
from sglang_platform.conformance.fixtures.pool_contents import layer_named
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles.fp8 import FP8, decode
from sglang_platform.conformance.oracles.stored_bytes import raw_bytes, stored_bytes
from sglang_platform.conformance.requirement import kv_pool
from sglang_platform.conformance.subject import Subject

_ASKED = (None, "float32", "bfloat16", "float16")
_OF_SLOTS = (torch.int64, torch.int32)
_AGAIN = (3, 1)
"""Places of the slots that stand twice."""


@dataclass(frozen=True)
class PartsOf:
    """`given`: the type of the rows that are stored."""

    pool: Pool
    given: str


def latent_types(subject: Subject, rng: random.Random) -> Iterator[PartsOf]:
    """Each kind of latent pool in each declared type, and for a prefill."""
    typed = [replace(pool, layers=2) for pool in each_kind_and_dtype(subject, rng)]
    for pool in (*typed, *latent_pools(subject, rng)):
        if subject.fixture(pool.kind).values_in_keys:
            yield PartsOf(pool, "bfloat16" if getattr(torch, pool.dtype) in FP8 else pool.dtype)


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=latent_types,
    fix="in get_mla_kv_buffer() give both parts in dst_dtype where it is named, else in the pool's dtype, 8-bit pools"
    " as well",
)
def mla_parts_come_in_the_type_asked_for(subject: Subject, case: PartsOf) -> None:
    """`get_mla_kv_buffer()` answers both parts in `dst_dtype`, or in the pool's type where none is named, for pools of
    every type: the numbers that were stored, rounded once more at most. Slots are of 64 bits, or of 32 as those of a
    chunk of a long prefix, and stand twice where two requests of it have one prefix. Parts of slots side by side are
    copies as well: they stay when the slots are stored anew."""
    pool = case.pool.build(subject)
    if not hasattr(pool.pool, "get_mla_kv_buffer"):
        raise NotApplicable("the pool has no get_mla_kv_buffer()")
    rank, n = case.pool.row[0], min(1200, pool.given["size"] - 3)
    slots, (rows,) = pool.some_slots(n), pool.random_rows(n, getattr(torch, case.given))
    layer = layer_named(pool.layers[-1])
    pool.store(layer.layer_id, slots, [rows])
    held = stored_bytes(rows.cpu(), pool.dtype)
    if pool.dtype in FP8:
        numbers = torch.from_numpy(np.ascontiguousarray(decode(held, pool.dtype))).reshape(rows.shape)
    else:
        numbers = torch.from_numpy(held).view(pool.dtype).reshape(rows.shape).double()
    numbers = numbers[[*range(n), *_AGAIN]]
    again = [slots[at] for at in _AGAIN]
    for at, name in enumerate(_ASKED):
        wanted = pool.dtype if name is None else getattr(torch, name)
        loc = pool.locations([*slots, *again], _OF_SLOTS[at % 2])
        got = pool.pool.get_mla_kv_buffer(layer, loc, None if name is None else wanted)
        asked = (
            f"get_mla_kv_buffer() of a pool of {case.pool.dtype}, dst_dtype={wanted if name else None}, by slots of"
            f" {loc.dtype} of which {len(again)} stand twice, gives"
        )
        parts = zip(("latent", "rotated"), got, (numbers[..., :rank], numbers[..., rank:]), strict=True)
        for what, part, true in parts:
            if part is None and true.numel() == 0:
                continue
            expect(part is not None, f"{asked} no {what} part")
            expect(part.dtype == wanted, f"{asked} the {what} part in {part.dtype}; it must be {wanted}")
            expect(
                part.numel() == true.numel() and len(part) == len(loc),
                f"{asked} the {what} part of {len(loc)} slots as {list(part.shape)}",
            )
            flat, bytes_of = true.reshape(len(loc), -1), raw_bytes(part.reshape(len(loc), -1))
            expect(
                np.array_equal(bytes_of, stored_bytes(flat, wanted)),
                f"{asked} another {what} part than was stored",
            )
    run = range(pool.given["page_size"], pool.given["page_size"] + min(n, 16))
    parts = [part for part in pool.pool.get_mla_kv_buffer(layer, pool.locations(run)) if part is not None]
    before = [raw_bytes(part) for part in parts]
    pool.store(layer.layer_id, run, pool.random_rows(len(run), getattr(torch, case.given)))
    with mended_by("answer copies of the rows in get_mla_kv_buffer(), also of slots side by side"):
        expect(
            all(map(np.array_equal, before, map(raw_bytes, parts))),
            f"what get_mla_kv_buffer() answered of slots {run[0]} to {run[-1]} changes when they are stored anew",
        )


@dataclass(frozen=True)
class UndeclaredDtype:
    kind: str
    dtype: str


_WITHOUT_RULE = ("int8",)
"""Of whole numbers the contract does not say with which scales they are stored."""


def undeclared_dtypes(subject: Subject, rng: random.Random) -> Iterator[UndeclaredDtype]:
    known = ("float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "int8")
    for kind in subject.declares.kv_kinds:
        for dtype in known:
            if dtype not in subject.declares.kv_dtypes:
                yield UndeclaredDtype(kind, dtype)


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=undeclared_dtypes,
    hosts=["none"],
    fix="refuse the dtype in the pool's constructor (`supported_dtypes` of core's pools does it); or store it rightly,"
    " and add it to supported_kv_dtypes",
)
def undeclared_dtype_is_refused(subject: Subject, case: UndeclaredDtype) -> None:
    """A dtype that is not in `supported_kv_dtypes` is refused when the pool is built, with a reason, or stored rightly:
    it is never stored as another, nor in the bytes of another."""
    try:
        subject.pool(case.kind, dtype=case.dtype)
    except Exception as error:  # noqa: BLE001 - any clear refusal will do
        expect(
            case.dtype in str(error) or "dtype" in str(error),
            f"a pool of {case.dtype} is refused with {type(error).__name__}: {error}; that does not name the dtype",
        )
        return
    built = f"a pool of {case.dtype} is built, though supported_kv_dtypes does not list {case.dtype}"
    expect(case.dtype not in _WITHOUT_RULE, f"{built}; nothing says what its rows hold")
    try:
        pool = PoisonedPool(subject, case.kind, dtype=case.dtype)
        for layer_id in pool.layers:
            slots = pool.some_slots(5)
            pool.store(layer_id, slots, pool.random_rows(len(slots), torch.float32))
            pool.verify(f"storing {len(slots)} tokens of float32 in layer {layer_id}")
    except Exception as error:
        what = error.what if isinstance(error, CheckFailed) else f"{type(error).__name__}: {error}"
        raise CheckFailed(f"{built}, and does not store it: {what}") from error
