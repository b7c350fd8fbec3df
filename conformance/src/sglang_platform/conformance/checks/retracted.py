"""Level 3: requests that leave for host memory and come back, as the host moves them: through the allocator."""

from __future__ import annotations

from sglang_platform.conformance.check import NotApplicable, check
from sglang_platform.conformance.checks.allocators import PAGED, alloc_extend
from sglang_platform.conformance.fixtures.poisoned_pool import PoisonedPool, page_sizes
from sglang_platform.conformance.fixtures.pool_cases import Pool, each_kind
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import kv_pool
from sglang_platform.conformance.subject import Subject


@check(
    level=Level.MEMORY,
    requires=[kv_pool(), *PAGED],
    cases=each_kind,
    fix="copy every slot that is named, whether or not they fill whole pages, or leave the allocator's get_cpu_copy()"
    " and load_cpu_copy() to core, which asks the pool",
)
def retracted_requests_come_back(subject: Subject, case: Pool) -> None:
    """The host takes a request's rows to host memory through the allocator, and loads them there into the slots that it
    is lent when it comes back: all of them, of a last page that is not full too."""
    page = next((size for size in page_sizes(subject, case.kind) if size > 1), None)
    if page is None:
        raise NotApplicable(f"pools of {case.kind} have pages of one slot only")
    subject.stands_on(f"copies of the {case.kind} pool")
    pool = PoisonedPool(subject, case.kind, **{**case.keywords(subject), "page_size": page, "size": 8 * page})
    allocator = subject.allocator(8 * page, page, pool=pool.pool)
    pool.fill()
    length = 2 * page + page // 2
    away, back = (
        alloc_extend(subject, allocator, [0], [length], [-1]).cpu().long().tolist() for _ in range(2)
    )
    copy = allocator.get_cpu_copy(pool.locations(away))
    pool.image.move(back, away)
    for layer_id in pool.layers:  # the slots are given to others meanwhile
        pool.store(layer_id, away, pool.random_rows(length))
    allocator.load_cpu_copy(copy, pool.locations(back))
    pool.verify(f"a request of {length} tokens left slots {away[:4]}... and came back to {back[:4]}...")
