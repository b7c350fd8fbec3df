"""The sharing out of a batch's tokens, beside a count in Python: every token once, no part longer than is said."""

from __future__ import annotations

import random
from pathlib import Path
from types import ModuleType

import pytest
import torch
import triton
import triton.language as tl

from sglang_platform.conformance.kernels.mutants import Mutant, load
from sglang_platform.core.portable.triton import split_work

BLOCK = 16
LANES = 8
"""Fewer than in use, so that a few requests are more than are looked at together."""


@triton.jit
def every_part(
    lens, out, batch, wanted, least, window, PART_OF: tl.constexpr, PARTS_WITHIN: tl.constexpr, BLOCK_N: tl.constexpr,
    LANES: tl.constexpr,
):  # fmt: skip
    number = tl.program_id(0)
    request, part, parts = PART_OF(number, lens, batch, wanted, least, window, BLOCK_N, LANES)
    if request < batch:
        length = tl.load(lens + request).to(tl.int32)
        first = tl.maximum(length - 1 - window, 0) if window >= 0 else 0
        start, end = PARTS_WITHIN(length, first, part, parts, BLOCK_N)
        tl.store(out + number * 3, request)
        tl.store(out + number * 3 + 1, start)
        tl.store(out + number * 3 + 2, end)


@triton.jit
def every_request(
    lens,
    out,
    batch,
    wanted,
    least,
    window,
    PARTS_BEFORE: tl.constexpr,
    BLOCK_N: tl.constexpr,
    LANES: tl.constexpr,
):
    request = tl.program_id(0)
    first, parts = PARTS_BEFORE(request, lens, batch, wanted, least, window, BLOCK_N, LANES)
    tl.store(out + request * 2, first)
    tl.store(out + request * 2 + 1, parts)


def shared_out(
    module: ModuleType, lengths: list[int], wanted: int, least: int, window: int
) -> tuple[list[list[int]], list[list[int]]]:
    """Of each part its request, start and end; of each request its first part and how many it has."""
    batch = len(lengths)
    lens = torch.tensor(lengths)
    parts = torch.full((wanted + batch - 1, 3), -1, dtype=torch.int32)
    requests = torch.full((batch, 2), -1, dtype=torch.int32)
    arguments = (batch, wanted, least, window)
    shapes = {"BLOCK_N": BLOCK, "LANES": LANES}
    every_part[(parts.shape[0],)](
        lens, parts, *arguments, PART_OF=module.part_of, PARTS_WITHIN=module.parts_within, **shapes
    )
    every_request[(batch,)](lens, requests, *arguments, PARTS_BEFORE=module.parts_before, **shapes)
    return [row for row in parts.tolist() if row[0] >= 0], requests.tolist()


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


MUTANTS = (
    ("the part after", "passed = ends <= number", "passed = ends < number"),
    (
        "the first requests forgotten",
        "        before += tl.sum(parts, 0)\n    return request",
        "    return request",
    ),
    ("the window left out", "tl.minimum(length, window + 1) if window >= 0 else length", "length"),
    ("its own parts before it", "tl.where(lane < request", "tl.where(lane <= request"),
    ("fewer blocks than the least", "tl.sum(total, 0), wanted), least)", "tl.sum(total, 0), wanted), 1)"),
    ("the last part too long", "tl.minimum(start + share, length)", "start + share"),
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
