"""The sharing out of a batch's tokens, beside a count in Python: every token once, no part longer than is said."""

from __future__ import annotations

import ast
import inspect
import random
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest
import torch
import triton
import triton.language as tl

from sglang_platform.conformance.kernels.mutants import Mutant, load
from sglang_platform.core.portable.triton import merge, split_work

BLOCK = 16
LANES = 8
"""Fewer than in use, so that a few requests are more than are looked at together."""


@triton.jit
def every_part(
    lens, owner, first_part, out, batch, window,
    PART_OF: tl.constexpr, PARTS_WITHIN: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    number = tl.program_id(0)
    request, part, parts = PART_OF(number, owner, first_part, batch)
    if request < batch:
        length = tl.load(lens + request).to(tl.int32)
        first = tl.maximum(length - 1 - window, 0) if window >= 0 else 0
        start, end = PARTS_WITHIN(length, first, part, parts, BLOCK_N)
        tl.store(out + number * 3, request)
        tl.store(out + number * 3 + 1, start)
        tl.store(out + number * 3 + 2, end)


def shared_out(
    module: ModuleType, lengths: list[int], wanted: int, least: int, window: int
) -> tuple[list[list[int]], list[list[int]]]:
    """Of each part its request, start and end; of each request its first part and how many it has."""
    batch = len(lengths)
    lens = torch.tensor(lengths)
    plan = module.plan_parts(lens, wanted=wanted, least=least, window=window, block_n=BLOCK, lanes=LANES)
    parts = torch.full((wanted + batch - 1, 3), -1, dtype=torch.int32)
    every_part[(parts.shape[0],)](
        lens,
        *plan,
        parts,
        batch,
        window,
        PART_OF=module.part_of,
        PARTS_WITHIN=module.parts_within,
        BLOCK_N=BLOCK,
    )
    first = plan.first.tolist()
    requests = [[at, end - at] for at, end in pairwise(first)]
    return [row for row in parts.tolist() if row[0] >= 0], requests


def faults(module: ModuleType, lengths: list[int], wanted: int, least: int, window: int) -> list[str]:
    parts, requests = shared_out(module, lengths, wanted, least, window)
    blocks = [-(-(min(n, window + 1) if window >= 0 else n) // BLOCK) for n in lengths]
    largest = max(least, -(-sum(blocks) // wanted))
    found = []
    at = 0
    for request, length in enumerate(lengths):
        position = max(length - 1 - window, 0) if window >= 0 else 0
        first, count = requests[request]
        if count != -(-blocks[request] // largest) or (count and first != at):
            found.append(f"request {request} of {length} tokens has {count} parts from {first} on")
        for number in range(at, at + -(-blocks[request] // largest)):
            owner, start, end = parts[number] if number < len(parts) else (-1, 0, 0)
            if owner != request or start != position or not start < end <= start + largest * BLOCK:
                found.append(f"part {number} is [{start}, {end}) of {owner}, after {position} of {request}")
            position = end
        if position != length:
            found.append(f"request {request} of {length} tokens is read up to {position}")
        at += -(-blocks[request] // largest)
    return found + ([f"{len(parts)} parts, not {at}"] if len(parts) != at else [])


def problems() -> list[tuple[list[int], int, int, int]]:
    rng = random.Random(5)
    fixed = [
        ([4000, *[30] * 11], 36, 1, -1),
        ([512] * 6, 12, 1, -1),
        ([0, 0], 2, 1, -1),
        ([1], 1, 1, -1),
        ([5] * 7 + [200] + [3] * 10 + [0, 70], 22, 1, -1),
        ([40, 33], 20, 4, -1),
    ]
    drawn = [
        (
            [rng.choice((0, 1, BLOCK, rng.randint(1, 600))) for _ in range(rng.randint(1, 18))],
            rng.randint(20, 30),
            rng.choice((1, 1, 4)),
            rng.choice((-1, -1, 0, 40, 5000)),
        )
        for _ in range(6)
    ]
    return fixed + drawn


@pytest.mark.parametrize("problem", problems(), ids=lambda p: f"{len(p[0])}-{p[1]}-{p[2]}-{p[3]}")
def test_every_token_is_read_once(problem: tuple[list[int], int, int, int]) -> None:
    assert faults(split_work, *problem) == []


def test_a_long_request_among_short_ones_is_shared_out() -> None:
    """4,000 tokens beside eleven requests of 30: most parts are of the long one, and none is longer than an even
    share of all and a block or two."""
    lengths = [4000, *[30] * 11]
    parts, requests = shared_out(split_work, lengths, 36, 1, -1)
    assert requests[0][1] >= 30
    assert max(end - start for _, start, end in parts) < sum(lengths) / 36 + 2 * BLOCK


@pytest.mark.parametrize("batch", [2, 64, 1024])
def test_a_program_of_a_layer_loads_three_numbers(batch: int) -> None:
    """Whatever the batch is: the code that finds a part has no loop, and each of its loads takes one number."""
    source = inspect.getsource(split_work.part_of.fn)
    assert not [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.For | ast.While)]
    assert source.count("tl.load(") == 3
    merged = inspect.getsource(merge.merge_kernel.fn)
    before_the_parts = merged[: merged.index("for at in range(0, parts")]
    assert before_the_parts.count("tl.load(first_ptr") == 2
    assert "range(0, batch" not in merged
    lens = torch.full((batch,), 100)
    plan = split_work.plan_parts(lens, wanted=2 * batch, least=1, window=-1, block_n=BLOCK)
    assert plan.owner.shape == (3 * batch - 1,)
    assert plan.first.shape == (batch + 1,)


def test_requests_of_like_lengths_are_not_shared_out() -> None:
    """A batch that fills the device wants half as many parts as requests: none up to twice the average is cut."""
    lengths = [300, 310, 290, 500, 100, 305]
    _, requests = shared_out(split_work, lengths, 3, 1, -1)
    assert [count for _, count in requests] == [1] * 6
    _, requests = shared_out(split_work, [5000, *lengths], 4, 1, -1)
    assert requests[0][1] > 1
    assert [count for _, count in requests[1:]] == [1] * 6


MUTANTS = (
    ("the part after", "return request, number - first,", "return request, number - first + 1,"),
    ("the first requests forgotten", "before += tl.sum(tl.where", "before = tl.sum(tl.where"),
    ("the window left out", "tl.minimum(length, window + 1) if window >= 0 else length", "length"),
    ("its own parts before it", "tl.where(lane < request", "tl.where(lane <= request"),
    ("fewer blocks than the least", "tl.sum(total, 0), wanted), least)", "tl.sum(total, 0), wanted), 1)"),
    ("the last part too long", "tl.minimum(start + share, length)", "start + share"),
    ("no end of the parts", "owner_ptr + number, batch, mask", "owner_ptr + number, 0, mask"),
    (
        "the part of the next request",
        "owner_ptr + number, request, mask",
        "owner_ptr + number, request + 1, mask",
    ),
)


@pytest.mark.parametrize(("name", "old", "new"), MUTANTS, ids=[mutant[0] for mutant in MUTANTS])
def test_a_defect_is_seen(name: str, old: str, new: str, tmp_path: Path) -> None:
    changed = load(Mutant(name, split_work.__name__, old, new), tmp_path)
    for problem in problems():
        try:
            if faults(changed, *problem):
                return
        except Exception:  # noqa: BLE001 - a defect may fail in any way
            return
    pytest.fail(f"{name} passed every problem")
