"""Level 3: types of the cache that the platform does not declare are refused, or stored rightly."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from sglang_platform.conformance.check import CheckFailed, check, expect
from sglang_platform.conformance.fixtures.poisoned_pool import PoisonedPool
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import kv_pool
from sglang_platform.conformance.subject import Subject


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
