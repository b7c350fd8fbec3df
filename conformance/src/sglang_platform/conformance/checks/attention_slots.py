"""Level 4: attention over a pool that keeps rows elsewhere than at their slots."""

from __future__ import annotations

from typing import Any

import torch

from sglang_platform.conformance.check import NotApplicable, check
from sglang_platform.conformance.fixtures.attention_case import AttentionCase
from sglang_platform.conformance.fixtures.attention_cases import edge_cases
from sglang_platform.conformance.fixtures.attention_judge import judge
from sglang_platform.conformance.fixtures.attention_step import AttentionStep
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import attention_backend, kv_pool
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []


@check(
    level=Level.KERNELS,
    hosts=("none",),
    requires=[attention_backend(), kv_pool()],
    cases=edge_cases,
    fix="look each slot of the request table up in the layer's slot_map() where that is a tensor, in decode and in"
    " extend, or say `_reads_slot_map = False`",
)
def rows_elsewhere_are_looked_up(subject: Subject, case: AttentionCase) -> None:
    """A backend that says that it reads a pool by its slot map finds the rows of a pool that keeps them in other pages,
    as the host's pool does for layers of a sliding window, in decode and in extend."""
    step = AttentionStep(subject, case)
    if not getattr(step.backend, "_reads_slot_map", False):
        raise NotApplicable("its attention reads rows at their slots: the host gives it no other pool")
    page, slots = case.page_size, step.contents.slots
    pages = slots // page
    named = torch.cat((torch.zeros(1).long(), torch.randperm(pages - 1, generator=step.generator) + 1))
    lies_at = torch.empty_like(named)
    lies_at[named] = torch.arange(pages)
    slot_map = (lies_at[:, None] * page + torch.arange(page)).flatten().to(subject.device)
    store: Any = step.pool.set_kv_buffer

    def stored(layer: Any, loc: torch.Tensor, *rows: Any, **more: Any) -> Any:
        return store(layer, slot_map[loc.long()], *rows, **more)

    step.pool.slot_map, step.pool.set_kv_buffer = slot_map, stored
    step.slots = [[int(named[slot // page]) * page + slot % page for slot in own] for own in step.slots]
    step.fill_table()
    judge(step, step.got())
