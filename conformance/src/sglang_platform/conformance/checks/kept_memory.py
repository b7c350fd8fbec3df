"""Levels 3 and 4: what calls keep. A server makes each of them for weeks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from sglang_platform.conformance.check import check
from sglang_platform.conformance.checks.allocators import PAGED, alloc_decode, alloc_extend, paged_sizes
from sglang_platform.conformance.checks.pool_memory import refuse_the_hosts_move
from sglang_platform.conformance.fixtures.attention_cases import compute_dtypes, edge_cases
from sglang_platform.conformance.fixtures.attention_step import AttentionCase, AttentionStep
from sglang_platform.conformance.fixtures.kept import expect_nothing_kept
from sglang_platform.conformance.fixtures.op_calls import an_op, forward_of, norm_op
from sglang_platform.conformance.fixtures.pool_cases import Pool, each_kind
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import attention_backend, fused_ops, kv_pool
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_PAGES = 64
_WIDTH = 64


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
    allocator = subject.parts.allocator(_PAGES * page, page)

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


def a_step_of_each(subject: Subject, rng: random.Random) -> Iterator[AttentionCase]:
    """The smallest step of each mode and kind of pool."""
    seen = set()
    for case in edge_cases(subject, rng):
        if (case.mode, case.kind) not in seen:
            seen.add((case.mode, case.kind))
            yield case


@check(
    level=Level.KERNELS,
    requires=(attention_backend(), kv_pool()),
    cases=a_step_of_each,
    seconds=120,
    fix="hold the metadata of the last step only, and workspaces by the largest size that was seen",
)
def attention_steps_keep_no_memory(subject: Subject, case: AttentionCase) -> None:
    """Steps of one backend, each with a batch and with queries of its own, leave nothing: memory does not grow with
    their number."""
    step = AttentionStep(subject, case)

    def a_step(_: int) -> None:
        step.__dict__.pop("batch", None)
        step.got()

    expect_nothing_kept(subject, a_step, f"steps of {case.mode}")


@dataclass(frozen=True)
class KeptBy:
    """`op`: its stable name."""

    op: str


def ops_called(subject: Subject, rng: random.Random) -> Iterator[KeptBy]:
    for op in (
        "layernorm.rms_norm",
        "layernorm.gemma_rms_norm",
        "activation.silu_and_mul",
        "activation.gelu_and_mul",
    ):
        yield KeptBy(op)


@check(
    level=Level.KERNELS,
    requires=[fused_ops()],
    cases=ops_called,
    fix="keep no tensor of a call; size a workspace by the largest number of rows, not one for each number",
)
def ops_keep_no_memory(subject: Subject, case: KeptBy) -> None:
    """An op called with another number of rows each time, as prompts have, leaves nothing."""
    forward = forward_of(subject, case.op)
    dtype = getattr(torch, compute_dtypes(subject)[0])
    norm = case.op.startswith("layernorm.")
    weight = torch.ones(_WIDTH, dtype=dtype, device=subject.device)
    op = norm_op(weight, 1e-5) if norm else an_op(approximate="tanh")

    def a_call(number: int) -> None:
        forward(
            op, torch.ones(number + 1, _WIDTH if norm else 2 * _WIDTH, dtype=dtype, device=subject.device)
        )

    expect_nothing_kept(subject, a_call, f"{case.op} of another number of rows each time")
