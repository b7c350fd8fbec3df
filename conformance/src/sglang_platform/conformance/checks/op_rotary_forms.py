"""Level 4: rotary embeddings with positions of three axes, and by heads, against float64."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from sglang_platform.conformance.check import check, expect
from sglang_platform.conformance.fixtures.attention_cases import compute_dtypes
from sglang_platform.conformance.fixtures.op_calls import an_op, forward_of, judge, only_lent
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles import ops as oracle
from sglang_platform.conformance.oracles.more_ops import axis_table
from sglang_platform.conformance.requirement import fused_ops
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_POSITIONS = 512


@dataclass(frozen=True)
class ThreeAxes:
    """`section`: pairs that turn by time, height and width; `axes`: 3, or 1 for a text, whose positions are one row."""

    tokens: int
    heads: tuple[int, int]
    head_size: int
    section: tuple[int, int, int]
    interleaved: bool
    dtype: str
    axes: int = 3
    style: str = "neox"


def three_axes(subject: Subject, rng: random.Random) -> Iterator[ThreeAxes]:
    dtypes, at = compute_dtypes(subject), 0
    for interleaved in (False, True):
        # Qwen2-VL, Qwen3-VL, a part of a head, and sections that end one after the other.
        for head_size, section in (
            (128, (16, 24, 24)),
            (128, (24, 20, 20)),
            (64, (4, 6, 6)),
            (32, (10, 4, 2)),
        ):
            for tokens in (1, 17):
                dtype = dtypes[at % len(dtypes)]
                yield ThreeAxes(tokens, (4, 2), head_size, section, interleaved, dtype)
                at += 1
        yield ThreeAxes(7, (4, 2), 64, (8, 12, 12), interleaved, dtypes[-1], style="gptj")  # as GLM's
        yield ThreeAxes(5, (2, 1), 64, (16, 8, 8), interleaved, dtypes[0], axes=1)
        yield ThreeAxes(0, (2, 1), 64, (16, 8, 8), interleaved, dtypes[0])


@check(
    level=Level.KERNELS,
    requires=[fused_ops()],
    cases=three_axes,
    founds="op rotary.mrope",
    fix="pair i turns by the position of its axis: section by section, or, interleaved, i % 3 while that section lasts"
    " and else the first",
)
def rotary_embedding_of_three_axes(subject: Subject, case: ThreeAxes) -> None:
    """Each pair of columns turns by the position in time, in height or in width that its section says, in both orders
    of the sections, in halves of a head and in neighbours; text, with one row of positions, turns as it does without
    sections. Positions are a slice of longer ones, as a graph's static inputs are."""
    forward = forward_of(subject, "rotary.mrope")
    rotary_dim, generator = 2 * sum(case.section), subject.torch_rng()
    dtype, cache = getattr(torch, case.dtype), _table(rotary_dim, getattr(torch, case.dtype))
    shape = (case.tokens,) if case.axes == 1 else (3, case.tokens)
    positions = torch.randint(0, _POSITIONS, shape, generator=generator)
    query, key = (
        torch.randn(case.tokens, heads * case.head_size, generator=generator).to(dtype)
        for heads in case.heads
    )
    op = an_op(
        cos_sin_cache=cache.to(subject.device),
        head_size=case.head_size,
        rotary_dim=rotary_dim,
        is_neox_style=case.style == "neox",
        mrope_section=list(case.section),
        mrope_interleaved=case.interleaved,
        mrope_interleaved_glm=False,
        max_position_embeddings=_POSITIONS,
        dtype=dtype,
    )
    wide = torch.nn.functional.pad(positions, (0, 8)).to(subject.device)
    given = wide[..., : case.tokens]  # a graph hands over a part of its static inputs
    with only_lent(positions=given, cos_sin_cache=op.cos_sin_cache):
        got = forward(op, given, query.to(subject.device, copy=True), key.to(subject.device, copy=True))
    if got is NotImplemented:
        return
    expect(
        isinstance(got, (tuple, list)) and len(got) == 2, f"the answer is {type(got).__name__}, not a pair"
    )
    table = (
        cache[positions] if case.axes == 1 else axis_table(positions, cache, case.section, case.interleaved)
    )
    tokens = torch.arange(case.tokens)
    for name, x, out in zip(("query", "key"), (query, key), got, strict=True):
        wanted = oracle.rotary_embedding(tokens, x, case.head_size, table, case.style == "neox")
        order = "interleaved" if case.interleaved else "section by section"
        judge(out, wanted, f"the {name}, {case.axes} axes, {order},", dtype=dtype)


@dataclass(frozen=True)
class ByHeads:
    """`offset`: the largest number in `offsets`, 0 where none are given."""

    tokens: int
    heads: tuple[int, int]
    head_size: int
    style: str
    dtype: str
    offset: int = 0
    rotary_dim: int | None = None
    positions: int = _POSITIONS


def by_heads(subject: Subject, rng: random.Random) -> Iterator[ByHeads]:
    dtypes, at = compute_dtypes(subject), 0
    for tokens, heads in ((1, (1, 1)), (17, (128, 1)), (3, (4, 2)), (0, (4, 1))):
        for style in ("neox", "gptj"):
            yield ByHeads(tokens, heads, 64, style, dtypes[at % len(dtypes)])
            at += 1
    yield ByHeads(5, (4, 1), 64, "gptj", dtypes[0], offset=100)
    yield ByHeads(5, (4, 1), 64, "neox", dtypes[-1], rotary_dim=32)
    yield ByHeads(
        33, (4, 1), 64, "gptj", dtypes[0], positions=70_000
    )  # beyond 16 bits; DeepSeek-V3 has 163,840


@check(
    level=Level.KERNELS,
    requires=[fused_ops()],
    cases=by_heads,
    founds="op rotary.deepseek_scaling",
    fix="query is [T, heads, D] and key [T, 1 or more, D]; the first rotary_dim columns of each turn, by positions +"
    " offsets",
)
def rotary_embedding_by_heads(subject: Subject, case: ByHeads) -> None:
    """The rotation of latent attention takes queries of many heads and the one key that they share, as slices of wider
    rows, in both styles, at positions of long contexts too."""
    forward = forward_of(subject, "rotary.deepseek_scaling")
    dtype, generator = getattr(torch, case.dtype), subject.torch_rng()
    rotary_dim = case.rotary_dim or case.head_size
    cache = _table(rotary_dim, torch.float32, case.positions)
    where = torch.randint(case.offset, case.positions, (case.tokens,), generator=generator)
    wide = [
        torch.randn(case.tokens, heads, 32 + case.head_size, generator=generator).to(dtype)
        for heads in case.heads
    ]
    op = an_op(
        cos_sin_cache=cache.to(subject.device),
        head_size=case.head_size,
        rotary_dim=rotary_dim,
        is_neox_style=case.style == "neox",
        max_position_embeddings=case.positions,
        dtype=dtype,
    )
    query, key = (x.to(subject.device, copy=True)[..., 32:] for x in wide)
    offsets = []
    if case.offset:
        offsets = [torch.full_like(where, case.offset).to(subject.device)]
    positions = (where - case.offset if case.offset else where).to(subject.device)
    with only_lent(positions=positions, cos_sin_cache=op.cos_sin_cache):
        got = forward(op, positions, query, key, *offsets)
    if got is NotImplemented:
        return
    expect(
        isinstance(got, (tuple, list)) and len(got) == 2, f"the answer is {type(got).__name__}, not a pair"
    )
    for name, x, out in zip(("query", "key"), wide, got, strict=True):
        rows = x[..., 32:].flatten(1)
        wanted = oracle.rotary_embedding(where, rows, case.head_size, cache, case.style == "neox")
        judge(out.flatten(1), wanted, f"the {name} by heads", dtype=dtype)


def _table(rotary_dim: int, dtype: torch.dtype, positions: int = _POSITIONS) -> torch.Tensor:
    pairs = torch.arange(rotary_dim // 2)
    angles = torch.arange(positions)[:, None] * 10000.0 ** (-pairs * 2 / rotary_dim)
    return torch.cat((angles.cos(), angles.sin()), dim=-1).to(dtype)
