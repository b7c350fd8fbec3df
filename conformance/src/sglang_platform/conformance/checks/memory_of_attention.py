"""Level 4: the memory that a step of attention takes for itself, and how it grows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from sglang_platform.conformance.check import check, expect
from sglang_platform.conformance.fixtures.attention_case import AttentionCase
from sglang_platform.conformance.fixtures.attention_cases import compute_dtypes, edge_cases
from sglang_platform.conformance.fixtures.attention_step import AttentionStep
from sglang_platform.conformance.fixtures.largest_tensor import memory_taken
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import attention_backend, kv_pool
from sglang_platform.conformance.subject import Subject

_REQUESTS = (4, 64)
_TOKENS = 32
_SLACK = 3.0
_LEAST = 1 << 20
"""Bytes that a device takes at a time, and that are no growth."""


def small_rows(subject: Subject, rng: random.Random) -> Iterator[AttentionCase]:
    """A prefill of each kind of pool, of few heads, so that rows of a batch are small beside what is for all pairs."""
    smallest: dict[str, AttentionCase] = {}
    for case in sorted(edge_cases(subject, rng), key=lambda one: one.heads[0] * max(one.dims)):
        smallest.setdefault(case.kind, case)
    page, dtype = max(subject.declares.page_sizes), compute_dtypes(subject)[0]
    for case in smallest.values():
        yield replace(case, mode="extend", requests=(), page_size=page, dtype=dtype)


@check(
    level=Level.KERNELS,
    requires=(attention_backend(), kv_pool()),
    cases=small_rows,
    seconds=120,
    fix="keep scores and masks of a request, or of a block of it, at a time: no tensor of all new tokens of the batch"
    " by all of its tokens",
)
def prefill_memory_grows_with_the_tokens(subject: Subject, case: AttentionCase) -> None:
    """The largest tensor that a prefill of 64 requests makes, or the memory that the device says it took at most, is
    16 times that of 4 requests as long, or little more, and not 256 times."""
    taken = [_taken(subject, case, requests) for requests in _REQUESTS]
    most = _SLACK * _REQUESTS[1] / _REQUESTS[0] * taken[0] + _LEAST
    expect(
        taken[1] <= most,
        f"a prefill of {_REQUESTS[0]} requests of {_TOKENS} tokens takes {taken[0]} bytes at a time, and of"
        f" {_REQUESTS[1]} requests {taken[1]}, {taken[1] / max(1, taken[0]):.3g} times as many",
    )


def _taken(subject: Subject, case: AttentionCase, requests: int) -> int:
    step = AttentionStep(subject, replace(case, requests=((0, _TOKENS),) * requests))
    given: Any = step.handed()
    backend, batch, layer = step.backend, step.batch, step.layer

    def run() -> None:
        with torch.no_grad():
            backend.init_forward_metadata(batch)
            backend.forward(*given, layer, batch)

    return memory_taken(subject, run)
