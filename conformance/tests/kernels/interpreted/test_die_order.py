"""The order of programs on AMD's dies: every program is there once, members of a group share a die, results stay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sglang_platform.conformance.kernels.compile import dies as model
from sglang_platform.conformance.kernels.mutants import Mutant, load
from sglang_platform.core.portable.triton.kernels import die_order
from sglang_platform.rocm.kernels import decode
from sglang_platform.rocm.kernels.hardware import HARDWARE, paged_extend
from sglang_platform.rocm.kernels.tuning import ARCHITECTURES


@triton.jit
def every_program(
    group_ptr, member_ptr, groups, members, count, ORDER: tl.constexpr, DIES: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    at = tl.arange(0, BLOCK)
    group, member = ORDER(at, groups, members, DIES)
    tl.store(group_ptr + at, group, mask=at < count)
    tl.store(member_ptr + at, member, mask=at < count)


def laid_out(module: ModuleType, groups: int, members: int, dies: int) -> list[tuple[int, int]]:
    count = groups * members
    group, member = (torch.full((count,), -1, dtype=torch.int32) for _ in range(2))
    every_program[(1,)](
        group, member, groups, members, count, ORDER=module.shared_on_one_die, DIES=dies,
        BLOCK=triton.next_power_of_2(count),
    )  # fmt: skip
    return list(zip(group.tolist(), member.tolist(), strict=True))


def faults(module: ModuleType, groups: int, members: int, dies: int) -> list[str]:
    programs = laid_out(module, groups, members, dies)
    found = []
    if sorted(programs) != [(group, member) for group in range(groups) for member in range(members)]:
        found.append("not every program once")
    on: dict[int, set[int]] = {}
    for at, (group, _) in enumerate(programs):
        on.setdefault(group, set()).add(at % dies)
    found += [
        f"group {group} is on dies {on.get(group)}"
        for group in range(groups // dies * dies)
        if len(on.get(group, ())) != 1
    ]
    launch = model.SharingLaunch("", groups, members, live=groups, read=0, slots=1, dies=dies)
    if programs != [model.shared_on_one_die(launch, at) for at in range(groups * members)]:
        found.append("not the order that the bytes are counted for")
    return found


@given(groups=st.integers(1, 300), members=st.integers(1, 40), dies=st.integers(1, 9))
@example(groups=127, members=8, dies=8)
@example(groups=7, members=3, dies=8)
@example(groups=8, members=1, dies=8)
@settings(max_examples=150, deadline=None)
def test_every_program_is_there_once(groups: int, members: int, dies: int) -> None:
    assert faults(die_order, groups, members, dies) == []


MUTANTS = (
    ("the groups left at the end as many as dies", "tl.minimum(groups - first, DIES)", "DIES"),
    ("members side by side", "within % beside, within // beside", "within // members, within % members"),
    ("blocks of one die", "at // (DIES * members)", "at // members"),
)


@pytest.mark.parametrize(("name", "old", "new"), MUTANTS, ids=[mutant[0] for mutant in MUTANTS])
def test_a_defect_is_seen(name: str, old: str, new: str, tmp_path: Path) -> None:
    changed = load(Mutant(name, die_order.__name__, old, new), tmp_path)
    assert faults(changed, 13, 3, 8), f"{name} passed"


def on_dies(many: bool) -> Any:
    record = ARCHITECTURES["gfx942"]
    record = record if many else replace(record, on_a_die=0)
    assert record.dies == (8 if many else 1)
    return replace(HARDWARE, records=SimpleNamespace(of=lambda device: record))


@pytest.mark.parametrize("splits", [1, 2])
def test_decode_gives_the_same_in_either_order(splits: int) -> None:
    """40 query heads of one KV head are three programs; five requests make groups that fill the dies once, or not."""
    lengths = torch.tensor([70, 1, 33, 0, 17])
    q = torch.randn(5, 80, 64).half()
    k, v = (torch.randn(96, 2, 64).half() for _ in range(2))
    table = torch.randint(0, 96, (5, 80), dtype=torch.int32)
    answers = []
    for many in (False, True):
        out = torch.full((5, 80, 64), float("nan")).half()
        decode.paged_decode(
            q, k, v, table, torch.arange(5), lengths, out, scale=0.125, splits=splits, hardware=on_dies(many)
        )
        answers.append(out)
    assert not answers[0].isnan().any()
    assert torch.equal(*answers)


@pytest.mark.parametrize(("heads", "splits"), [(8, 1), (8, 2), (3, 1)])
def test_extend_gives_the_same_in_either_order(heads: int, splits: int) -> None:
    """Requests of two, one and no blocks; eight heads are laid on a die each, three stay in turn."""
    counts, prefixes = [20, 3, 0], torch.tensor([17, 40, 5])
    start = torch.tensor([0, 20, 23, 23])
    q = torch.randn(23, heads * 4, 64).half()
    new_k, new_v = (torch.randn(23, heads, 64).half() for _ in range(2))
    k, v = (torch.randn(64, heads, 64).half() for _ in range(2))
    table = torch.randint(0, 64, (3, 60), dtype=torch.int32)
    answers = []
    for many in (False, True):
        record = on_dies(many).of(q.device)
        shape = replace(record.extend.narrow, block_m=32)
        record = replace(record, extend=replace(record.extend, narrow=shape))
        out = torch.full_like(q, float("nan"))
        paged_extend(
            q, new_k, new_v, k, v, table, torch.arange(3), start, prefixes, out, max_new=max(counts),
            scale=0.125, splits=splits, hardware=replace(HARDWARE, records=SimpleNamespace(of=lambda _, r=record: r)),
        )  # fmt: skip
        answers.append(out)
    assert not answers[0].isnan().any()
    assert torch.equal(*answers)
