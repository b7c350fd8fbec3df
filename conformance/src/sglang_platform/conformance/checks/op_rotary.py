"""Level 4: rotary embedding against float64."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch

from sglang_platform.conformance.check import check, expect
from sglang_platform.conformance.fixtures.attention_cases import compute_dtypes
from sglang_platform.conformance.fixtures.op_calls import an_op, forward_of, judge, only_lent
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles import ops as oracle
from sglang_platform.conformance.requirement import fused_ops
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []


@dataclass(frozen=True)
class Rotation:
    """`positions`: how many the model has; `sliced`: queries and keys are slices of one projection; `offset`: the
    largest number in `offsets`, 0 where none are given; `by_heads`: they come as [tokens, heads, head_size]; `parts`:
    each head is the last part of a wider one, as the rotated part of latent attention; `integers`, `table`: the types
    of positions and of the table, that of the queries where none is said."""

    tokens: int
    heads: tuple[int, int]
    head_size: int
    rotary_dim: int
    style: str
    dtype: str
    positions: int = 64
    sliced: bool = False
    offset: int = 0
    by_heads: bool = False
    parts: bool = False
    integers: str = "int64"
    table: str | None = None


def rotations(subject: Subject, rng: random.Random) -> Iterator[Rotation]:
    dtypes, at = compute_dtypes(subject), 0
    for tokens, heads in ((1, (1, 1)), (3, (4, 2)), (17, (8, 1))):
        for head_size, rotary_dim in ((16, 16), (64, 32), (128, 128), (80, 80)):
            for style in ("neox", "gptj"):
                yield Rotation(tokens, heads, head_size, rotary_dim, style, dtypes[at % len(dtypes)])
                at += 1
    # Of served models: Llama 3.1 over its 128k positions, GLM-4 with half of a head, Qwen3-Next with a quarter, Phi-3,
    # Gemma, Falcon's 71 heads, the rotated part of 128 latent heads, and a prefill.
    yield Rotation(9, (32, 8), 128, 128, "neox", dtypes[0], 131072, sliced=True)
    yield Rotation(9, (32, 2), 128, 64, "gptj", dtypes[0], 32768, sliced=True)
    yield Rotation(300, (16, 2), 256, 64, "neox", dtypes[-1], 4096, sliced=True)
    yield Rotation(5, (32, 32), 96, 96, "neox", dtypes[0], 4096)
    yield Rotation(6, (16, 8), 256, 256, "neox", dtypes[0], 8192, sliced=True)
    yield Rotation(7, (71, 1), 64, 64, "neox", dtypes[-1], 2048, sliced=True)
    yield Rotation(3, (128, 1), 64, 64, "gptj", dtypes[0], 4096, by_heads=True)
    for dtype in dtypes:
        yield Rotation(4, (3, 1), 192, 192, "neox", dtype, 2048)  # halves of no power of two
        yield Rotation(7, (16, 1), 64, 64, "gptj", dtype, 4096, by_heads=True, parts=True)
        yield Rotation(3, (4, 2), 32, 32, "neox", dtype, 4096, by_heads=True, parts=True)
    yield Rotation(2100, (2, 1), 64, 64, "neox", dtypes[0], 4096)
    # Of calls: none at all, positions of 32 bits, offsets to them, queries by heads, a table more exact than the rows.
    yield Rotation(0, (4, 2), 64, 64, "neox", dtypes[0])
    yield Rotation(5, (4, 2), 64, 64, "neox", dtypes[0], integers="int32")
    for style in ("neox", "gptj"):
        yield Rotation(5, (4, 2), 64, 32, style, dtypes[0], 4096, offset=2048)
        yield Rotation(5, (4, 2), 64, 32, style, dtypes[-1], by_heads=True)
        for pairs in (3, 10, 37):
            yield Rotation(5, (4, 2), 80, 2 * pairs, style, dtypes[0], sliced=True)
    yield Rotation(5, (4, 2), 64, 64, "neox", dtypes[-1], 4096, table="float32")
    if subject.thorough:
        for tokens in (4096, 16384):
            yield Rotation(tokens, (8, 2), 128, 128, "neox", dtypes[-1], 262144, sliced=True)


@check(
    level=Level.KERNELS,
    requires=[fused_ops()],
    cases=rotations,
    founds="op rotary.rotary_embedding",
    fix="pairs are (i, i + rotary_dim / 2) in the neox style, (2 i, 2 i + 1) in the gptj style; what lies behind"
    " rotary_dim stays; the cache holds cosines, then sines; offsets are added to the positions; read the table"
    " that the op has now",
)
def rotary_embedding(subject: Subject, case: Rotation) -> None:
    """Queries and keys are rotated by their position, in both styles, whole heads and parts of them, whatever their
    number, their form and the type of their positions, also when the host has made the table longer since the last call
    (`_ensure_cos_sin_cache_length`, SGLang 0.5.23)."""
    forward = forward_of(subject, "rotary.rotary_embedding")
    call = _Call(subject, case)
    more = [] if call.offsets is None else [call.offsets]
    if not more:
        whole, short = call.op.cos_sin_cache, case.positions // 2
        call.op.cos_sin_cache = whole[:short].clone()
        forward(call.op, call.positions.clamp(max=short - 1), *call.given())
        call.op.cos_sin_cache = whole
    with only_lent(positions=call.positions, cos_sin_cache=call.op.cos_sin_cache):
        got = forward(call.op, call.positions, *call.given(), *more)
    if got is not NotImplemented:
        call.judge(got)


@dataclass(frozen=True)
class Store:
    """`of`: how the host hands the places over: `attributes`, or the entries of a dict."""

    of: str


def stores(subject: Subject, rng: random.Random) -> Iterator[Store]:
    for of in ("attributes", "entries"):
        yield Store(of)


@check(
    level=Level.KERNELS,
    requires=[fused_ops()],
    cases=stores,
    fix="store the rotated keys and the values at cache_loc, or answer NotImplemented where fused_set_kv_buffer_arg is"
    " given",
)
def rotary_embedding_stores_or_declines(subject: Subject, case: Store) -> None:
    """A call with `fused_set_kv_buffer_arg`, after which the model stores nothing itself, leaves the rotated keys and
    the values in the cache, or is left to the host."""
    forward = forward_of(subject, "rotary.rotary_embedding")
    call = _Call(subject, Rotation(4, (4, 2), 16, 16, "neox", compute_dtypes(subject)[0]))
    dtype, width = call.key.dtype, call.key.shape[1]
    value = torch.randn(4, width, generator=subject.torch_rng()).to(dtype)
    keys, values = (torch.zeros(12, width, dtype=dtype, device=subject.device) for _ in range(2))
    places = torch.tensor([7, 2, 9, 4])
    if case.of == "attributes":
        given: Any = SimpleNamespace(
            value=value.to(subject.device),
            k_buffer=keys,
            v_buffer=values,
            cache_loc=places.to(subject.device),
        )
    else:
        paged = {"key_cache": keys.view(12, 1, 2, 16), "value_cache": values.view(12, 1, 2, 16)}
        given = {
            "v": value.view(4, 2, 16).to(subject.device),
            "k_scale": None,
            "v_scale": None,
            "slot_mapping": places.to(subject.device),
            "swa_slot_mapping": None,
            **paged,
        }
    try:
        got = forward(call.op, call.positions, *call.given(), fused_set_kv_buffer_arg=given)
    except NotImplementedError:
        return
    if got is NotImplemented:
        return
    call.judge(got)
    subject.synchronize()
    stored = keys[places.to(keys.device)].cpu()
    judge(stored, call.expected("key"), "the stored key")
    expect(
        torch.equal(values[places.to(values.device)].cpu(), value),
        "the call answers as if it had stored keys and values, and the values are not in the cache",
    )


class _Call:
    """The tensors of one call, on the CPU, and as the platform is given them."""

    def __init__(self, subject: Subject, case: Rotation) -> None:
        self.case, self.device = case, subject.device
        dtype, generator = getattr(torch, case.dtype), subject.torch_rng()
        limit, half = case.positions, case.rotary_dim // 2
        angles = torch.arange(limit)[:, None] * 10000.0 ** (-torch.arange(half) * 2 / case.rotary_dim)
        table = getattr(torch, case.table) if case.table else dtype
        self.cache = torch.cat((angles.cos(), angles.sin()), dim=-1).to(table)
        self.where = torch.randint(0, limit, (case.tokens,), generator=generator)
        if case.tokens:
            self.where[0] = limit - 1
        self.query, self.key = (
            torch.randn(case.tokens, heads * case.head_size, generator=generator).to(dtype)
            for heads in case.heads
        )
        self.offsets = None
        positions = self.where
        if case.offset:
            offsets = torch.randint(1, case.offset, (case.tokens,), generator=generator).clamp(max=self.where)
            positions, self.offsets = self.where - offsets, offsets.to(subject.device)
        self.positions = positions.to(getattr(torch, case.integers)).to(subject.device)
        self.op = an_op(
            cos_sin_cache=self.cache.to(subject.device),
            head_size=case.head_size,
            rotary_dim=case.rotary_dim,
            is_neox_style=case.style == "neox",
            max_position_embeddings=limit,
            dtype=dtype,
        )

    def given(self) -> tuple[torch.Tensor, torch.Tensor]:
        query, key = self.query.clone(), self.key.clone()
        if self.case.sliced:
            widths = (query.shape[1], key.shape[1], 16)
            fused = torch.cat((query, key, torch.ones(self.case.tokens, 16, dtype=query.dtype)), dim=1)
            query, key = fused.to(self.device).split(widths, dim=1)[:2]
        if self.case.by_heads:
            query, key = (x.unflatten(1, (-1, self.case.head_size)) for x in (query, key))
        if self.case.parts:
            before = [torch.ones(*x.shape[:2], width, dtype=x.dtype) for x, width in ((query, 24), (key, 48))]
            query, key = (
                torch.cat((ones, x), dim=-1).to(self.device)[..., ones.shape[-1] :]
                for ones, x in zip(before, (query, key), strict=True)
            )
        return query.to(self.device), key.to(self.device)

    def expected(self, name: str) -> oracle.Expected:
        x = self.query if name == "query" else self.key
        neox = self.case.style == "neox"
        return oracle.rotary_embedding(self.where, x, self.case.head_size, self.cache, neox)

    def judge(self, got: Any) -> None:
        expect(
            isinstance(got, (tuple, list)) and len(got) == 2,
            f"the answer is {type(got).__name__}, not the pair (query, key)",
        )
        for name, out in zip(("query", "key"), got, strict=True):
            expected = self.expected(name)
            if self.case.by_heads and isinstance(out, torch.Tensor) and out.dim() == 3:
                out = out.flatten(1)
            judge(out, expected, f"the {name}", dtype=self.query.dtype)
