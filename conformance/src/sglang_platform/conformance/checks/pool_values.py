"""Level 3: values are cast and scaled as they are stored."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from sglang_platform.conformance.check import check, mended_by
from sglang_platform.conformance.fixtures.poisoned_pool import PoisonedPool
from sglang_platform.conformance.fixtures.pool_cases import Pool, each_kind_and_dtype
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles.fp8 import FP8
from sglang_platform.conformance.oracles.precision import format_of
from sglang_platform.conformance.requirement import kv_pool
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_IN_TURN = ((4.0, 0.5), (0.5, None), (None, 4.0), (2.0, 8.0), (None, None), (4.0, 0.5))
"""Scales of keys and values, of stores after one another. Powers of two: the quotient is exact in every type."""


@dataclass(frozen=True)
class Cast(Pool):
    given: str = ""
    scale: float | None = None
    also: str = ""
    """What the stores are of, where it is not one scale of random numbers."""


def casts(subject: Subject, rng: random.Random) -> Iterator[Cast]:
    for pool in each_kind_and_dtype(subject, rng):
        fixture, dtype = subject.fixture(pool.kind), getattr(torch, pool.dtype)
        row = fixture.rows[1] if fixture.has_heads else pool.row
        case = Cast(**vars(replace(pool, row=row, size=pool.size + 16)))
        scaled = fixture.takes_scales and dtype in FP8
        for given in dict.fromkeys(("float32", "bfloat16", "float16", pool.dtype)):
            if given != pool.dtype:
                for scale in (None, 0.5, 4.0) if scaled else (None,):
                    yield replace(case, given=given, scale=scale)
            elif fixture.takes_scales:  # who made rows of the pool's type has scaled them
                yield replace(case, given=given, scale=4.0)
        if scaled:
            yield replace(case, given="bfloat16", also="scales in turn")
        elif fixture.takes_scales:
            yield replace(
                case, given="float16" if dtype == torch.float32 else "float32", scale=2.0, also="input"
            )
        if dtype in FP8 and subject.host == "none":
            yield replace(case, given="float32", also="numbers beyond the range")


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=casts,
    fix="divide keys by k_scale and values by v_scale (where given), each by its own, as this call brings them, round"
    " to nearest even, then store the bits",
)
def store_casts_and_scales(subject: Subject, case: Cast) -> None:
    """Values of another dtype are divided by their scale and rounded to nearest even; scales are numbers or tensors, of
    keys and values each its own, others in each store; numbers beyond the range of fp8 become its largest."""
    pool = case.build(subject)
    if case.also == "scales in turn":
        for layer_id in pool.layers:
            for at, scales in enumerate(_IN_TURN):
                given = tuple(_tensor(one, pool) if at % 2 else one for one in scales)
                pool.store(
                    layer_id, pool.some_slots(3), pool.random_rows(3, getattr(torch, case.given)), given
                )
                pool.verify(f"store {at + 1} of layer {layer_id}, with scales {scales} of keys and values")
    elif case.also == "input":  # which `store` compares; no scale is promised for such a pool
        pool.store(
            pool.layers[0], pool.some_slots(3), pool.random_rows(3, getattr(torch, case.given)), case.scale
        )
    elif case.also:
        _store_edges(pool)
    else:
        _store_twice(pool, case)


def _store_twice(pool: PoisonedPool, case: Cast) -> None:
    """The scale as a number and as a tensor; the same tensors hold other values in the next store."""
    for scale in (case.scale, _tensor(case.scale, pool)):
        how = " as a tensor" if isinstance(scale, torch.Tensor) else ""
        how = "" if case.scale is None else f" with a scale of {case.scale}{how}"
        rows = pool.random_rows(12, getattr(torch, case.given))
        pool.store(pool.layers[0], pool.some_slots(12), rows, scale)
        pool.verify(f"storing {case.given} values{how}")
        for row, other in zip(rows, pool.random_rows(12, getattr(torch, case.given)), strict=True):
            row.copy_(other)
        pool.store(pool.layers[0], pool.some_slots(12), rows, scale)
        pool.verify(f"storing other {case.given} values in the same tensors{how}")


def _store_edges(pool: PoisonedPool) -> None:
    """Infinite numbers become the largest of their sign too, and small ones keep their subnormals."""
    largest = format_of(pool.dtype).largest
    near = [largest, 1.01 * largest, 3 * largest, -2 * largest, 0.0, largest / 2, 0.002, -0.01]
    edges = torch.tensor([*near, torch.inf, -torch.inf])
    rows = [edges.repeat(row.numel())[: row.numel()].reshape(row.shape) for row in pool.random_rows(4)]
    with mended_by(
        "clamp to the largest value of the fp8 dtype before the cast, and write no NaN or infinity for a large number"
    ):
        pool.store(pool.layers[0], pool.some_slots(4), [row.to(pool.device) for row in rows])
        pool.verify(f"storing numbers up to {3 * largest:g} as {pool.given['dtype']}")


def _tensor(scale: float | None, pool: PoisonedPool) -> torch.Tensor | None:
    return None if scale is None else torch.tensor(scale, dtype=torch.float32, device=pool.device)
