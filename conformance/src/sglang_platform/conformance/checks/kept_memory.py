"""Levels 3 and 4: what calls keep. A server makes each of them for weeks."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import torch

from sglang_platform.conformance.check import check
from sglang_platform.conformance.checks.allocators import PAGED, alloc_decode, alloc_extend, paged_sizes
from sglang_platform.conformance.checks.pool_moves import refuse_the_hosts_move
from sglang_platform.conformance.checks.state_kernels import calls_of, kernels_brought
from sglang_platform.conformance.fixtures.attention_case import AttentionCase
from sglang_platform.conformance.fixtures.attention_cases import decode, extend, steps
from sglang_platform.conformance.fixtures.attention_step import AttentionStep
from sglang_platform.conformance.fixtures.brought_classes import memory_saver
from sglang_platform.conformance.fixtures.kept import MOST_CALLS, expect_nothing_kept
from sglang_platform.conformance.fixtures.pool_cases import Pool, each_kind
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import attention_backend, kv_pool
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_PAGES = 64


@check(
    level=Level.MEMORY,
    requires=PAGED,
    seconds=120,
    fix="keep page numbers only, each once, while it is free or lent; drop the tensors that free() is given",
)
def freed_slots_are_not_kept(subject: Subject) -> None:
    """Requests come, grow, and are freed, each alone, in one call and in a free group, after the state was saved and
    restored as for drafts: memory does not grow with their number."""
    page = paged_sizes(subject)[0]
    allocator = subject.allocator(_PAGES * page, page)

    def a_request(number: int) -> None:
        if hasattr(allocator, "backup_state"):
            allocator.restore_state(allocator.backup_state())
        length = 2 * page + number % page
        slots = alloc_extend(subject, allocator, [0], [length], [-1])
        more = alloc_decode(subject, allocator, [length + 1], [int(slots[-1])])
        own = torch.cat((slots, more))
        if number % 2:
            allocator.free(own)
            return
        allocator.free_group_begin()
        allocator.free(own)
        allocator.free_group_end()

    expect_nothing_kept(subject, a_request, "requests that come and are freed")


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=each_kind,
    seconds=120,
    fix="keep no rows and no slots after the call: scratch memory is freed, or made once and used again",
)
def pool_calls_keep_no_memory(subject: Subject, case: Pool) -> None:
    """Stores, moves, and copies to host memory and back leave nothing: memory does not grow with their number."""
    pool = case.build(subject)
    count = min(4, case.size // 3)
    slots = pool.some_slots(2 * count)
    first, second = slots[:count], slots[count : 2 * count]
    layer, rows = pool.layers[0], pool.random_rows(count)

    def stored(_: int) -> None:
        pool.store(layer, first, rows)

    def moved(number: int) -> None:
        there, here = (first, second) if number % 2 else (second, first)
        pool.pool.move_kv_cache(pool.locations(there, torch.int64), pool.locations(here, torch.int64))

    def retracted(_: int) -> None:
        at = pool.locations(first, torch.int64)
        pool.pool.load_cpu_copy(pool.pool.get_cpu_copy(at), at)

    expect_nothing_kept(subject, stored, "stores")
    expect_nothing_kept(subject, retracted, "copies to host memory and back")
    refuse_the_hosts_move(subject, pool.pool)
    expect_nothing_kept(subject, moved, "moves")


@check(
    level=Level.KERNELS,
    requires=(attention_backend(), kv_pool()),
    cases=steps(decode(0), extend((0, 3))),
    seconds=120,
    fix="hold the metadata of the last step only, and workspaces by the largest size that was seen",
)
def attention_steps_keep_no_memory(subject: Subject, case: AttentionCase) -> None:
    """Steps of one backend, each with a batch and with queries of its own, leave nothing: memory does not grow with
    their number, and tensors do not grow with the number of lengths that were seen."""
    step = AttentionStep(subject, case)

    def a_step(_: int) -> None:
        step.__dict__.pop("batch", None)
        step.got()

    expect_nothing_kept(subject, a_step, f"steps of {case.mode}")
    if case.mode == "extend" and not case.features:
        whole = AttentionStep(subject, replace(case, requests=((0, MOST_CALLS),)))
        whole.got()
        expect_nothing_kept(
            subject,
            lambda number: whole.following("extend", [0], lengths=[number + 1]).got(),
            "extends that are each of another length",
            kinds=("bytes in tensors",),
        )


@check(
    level=Level.MEMORY,
    hosts=("none",),
    seconds=120,
    fix="let go of what was kept of a content once resume() has put it back",
)
def released_contents_are_not_kept(subject: Subject) -> None:
    """Weights that are released with their content and resumed, again and again, as between steps of training: memory
    does not grow with the times."""
    saver = memory_saver(subject)
    weights = [torch.ones(1 << 12, device=subject.device), torch.ones(33, 7, device=subject.device)]

    def a_cycle(_: int) -> None:
        saver.release("weights", weights, keep_content=True)
        saver.resume("weights")

    expect_nothing_kept(subject, a_cycle, "releases and resumes")


_MASK = "get_token_bitmask_fn()"


@dataclass(frozen=True)
class KeptByStates:
    """`kernel`: of `get_state_kernels()`, or the mask of grammars."""

    kernel: str
    step: Literal["decode", "prefill"] = "decode"


def state_kernels_called(subject: Subject, rng: random.Random) -> Iterator[KeptByStates]:
    if getattr(subject.platform, "get_token_bitmask_fn", lambda: None)() is not None:
        yield KeptByStates(_MASK)
    yield from itertools.starmap(
        KeptByStates, itertools.product(kernels_brought(subject), ("decode", "prefill"))
    )


@check(
    level=Level.KERNELS,
    cases=state_kernels_called,
    fix="keep nothing of a call: no logits, no mask, no states and no slots",
)
def state_kernels_keep_no_memory(subject: Subject, case: KeptByStates) -> None:
    """Masks of grammars, and decodes and prefills of the platform's own kernels of layers with a state, leave nothing:
    memory does not grow with their number."""
    if case.kernel == _MASK:
        function = subject.platform.get_token_bitmask_fn()
        logits = torch.zeros(2, 100, device=subject.device)
        allowed = torch.full((2, 4), 0x5555, dtype=torch.int32, device=subject.device)
        expect_nothing_kept(subject, lambda _: function(logits, allowed), "masks of grammars")
    else:
        call = calls_of(subject, case.kernel, case.step)
        expect_nothing_kept(subject, lambda _: call(), f"{case.step}s of {case.kernel}")
