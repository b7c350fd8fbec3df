"""Paged attention against dense attention in float64.

Error bound, for scores of a few units: |out - oracle| <= (4e-5 + p) max|v| + u |oracle|, where u is the unit roundoff
of the output's type and p, for bfloat16 extend alone, that of the probabilities (2^-8), which the matrix unit takes in
bfloat16 as torch's own flash attention does.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sglang_platform.example_oot.kernels import library

UNIT_ROUNDOFF = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
SETTINGS = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


class Shape(NamedTuple):
    kv_heads: int
    group: int
    dim: int
    v_dim: int
    dtype: torch.dtype
    window: int
    logit_cap: float
    sinks: bool


shapes = st.builds(
    Shape,
    kv_heads=st.sampled_from([1, 2, 3]),
    group=st.sampled_from([1, 2, 3, 4, 7, 8, 12]),
    dim=st.sampled_from([8, 24, 64, 80, 128]),
    v_dim=st.sampled_from([8, 40, 64, 128]),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
    window=st.sampled_from([-1, -1, 0, 3, 130]),
    logit_cap=st.sampled_from([0.0, 0.0, 5.0]),
    sinks=st.booleans(),
)
PLAIN = Shape(2, 4, 64, 64, torch.float32, -1, 0.0, False)


class Batch:
    """Requests whose tokens lie scattered over a pool that is NaN wherever no token lies."""

    def __init__(self, shape: Shape, seq_lens: list[int], new_lens: list[int], seed: int) -> None:
        random = torch.Generator().manual_seed(seed)
        s, self.shape = shape, shape
        heads, tokens = s.kv_heads * s.group, sum(max(n, 0) for n in seq_lens)

        def normal(*size: int) -> torch.Tensor:
            return torch.randn(*size, generator=random).to(s.dtype)

        slots = tokens + 9
        self.k_buffer = torch.full((slots, s.kv_heads, s.dim), float("nan"), dtype=s.dtype)
        self.v_buffer = torch.full((slots, s.kv_heads, s.v_dim), float("nan"), dtype=s.dtype)
        used = (torch.randperm(slots - 1, generator=random) + 1)[:tokens].int()
        self.k_buffer[used] = normal(tokens, s.kv_heads, s.dim)
        self.v_buffer[used] = normal(tokens, s.kv_heads, s.v_dim)
        rows = torch.randperm(len(seq_lens) + 2, generator=random)[: len(seq_lens)]
        self.req_to_token = torch.zeros(len(seq_lens) + 2, max([1, *seq_lens]) + 3, dtype=torch.int32)
        start = 0
        for row, n in zip(rows.tolist(), seq_lens, strict=True):
            self.req_to_token[row, : max(n, 0)] = used[start : start + max(n, 0)]
            start += max(n, 0)
        self.req_pool_indices = rows
        self.seq_lens = torch.tensor(seq_lens, dtype=torch.int64)
        self.new_lens = torch.tensor(new_lens, dtype=torch.int64)
        # q and out as slices of wider rows: strided in dimension 0.
        count = sum(new_lens)
        self.q = normal(count, heads * s.dim + 16)[:, 16:].unflatten(1, (heads, s.dim))
        self.out = torch.full((count, heads * s.v_dim + 8), 7.0, dtype=s.dtype)[:, 8:].unflatten(
            1, (heads, s.v_dim)
        )
        self.sinks = torch.randn(heads, generator=random) if s.sinks else None
        self.scaling = s.dim**-0.5
        self.cache = (self.k_buffer, self.v_buffer, self.req_to_token, self.req_pool_indices, self.seq_lens)
        self.options = (self.scaling, s.logit_cap, s.window)

    def oracle(self, causal: bool = True) -> torch.Tensor:
        """Dense softmax attention in float64: per request, all positions at once, then the mask."""
        s, result, row = self.shape, torch.zeros(self.out.shape, dtype=torch.float64), 0
        lengths = zip(self.req_pool_indices, self.seq_lens.tolist(), self.new_lens.tolist(), strict=True)
        for index, length, new in lengths:
            here = slice(row, row + new)
            row += new
            if length <= 0 or new == 0:
                continue
            slots = self.req_to_token[index, :length].long()
            keys = self.k_buffer[slots].double().repeat_interleave(s.group, 1)
            values = self.v_buffer[slots].double().repeat_interleave(s.group, 1)
            scores = torch.einsum("nhd,thd->hnt", self.q[here].double(), keys) * self.scaling
            if s.logit_cap > 0:
                scores = s.logit_cap * torch.tanh(scores / s.logit_cap)
            own, other = torch.arange(length - new, length)[:, None], torch.arange(length)
            unseen = (other > own) & causal
            if s.window >= 0:
                unseen |= other < own - s.window
            scores = scores.masked_fill(unseen, -torch.inf)
            if self.sinks is not None:
                sink = self.sinks.double()[:, None, None].expand(-1, new, 1)
                weights = torch.softmax(torch.cat([scores, sink], -1), -1)[..., :length]
            else:
                weights = torch.softmax(scores, -1)
            result[here] = torch.einsum("hnt,thd->nhd", weights, values)
        return result

    def check(self, oracle: torch.Tensor, probability_roundoff: float = 0.0) -> None:
        top = float(self.v_buffer.double().nan_to_num().abs().max()) if self.v_buffer.numel() else 0.0
        bound = (4e-5 + probability_roundoff) * top + UNIT_ROUNDOFF[self.shape.dtype] * oracle.abs()
        error = (self.out.double() - oracle).abs()
        assert bool((error <= bound).all()), (
            f"largest error {float(error.max()):.3g}, bound {float(bound.max()):.3g}"
        )


def extend(kernels, batch: Batch, causal: bool = True) -> None:
    kernels("paged_extend")(
        batch.q,
        *batch.cache,
        batch.seq_lens - batch.new_lens,
        batch.new_lens,
        batch.out,
        *batch.options,
        causal,
        batch.sinks,
    )


def check_extend(batch: Batch, causal: bool = True) -> None:
    batch.check(batch.oracle(causal), 2.0**-8 if batch.shape.dtype == torch.bfloat16 else 0.0)


@SETTINGS
@given(shape=shapes, seq_lens=st.lists(st.integers(-1, 700), max_size=4), seed=st.integers(0, 9))
def test_decode_equals_the_oracle(kernels, shape, seq_lens, seed):
    batch = Batch(shape, seq_lens, [1] * len(seq_lens), seed)
    kernels("paged_decode")(batch.q, *batch.cache, batch.out, *batch.options, batch.sinks)
    batch.check(batch.oracle())


@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 255, 256, 257, 511, 512, 513, 1300])
def test_decode_at_the_edges_of_its_chunks(kernels, length):
    batch = Batch(PLAIN, [length, 1], [1, 1], length)
    kernels("paged_decode")(batch.q, *batch.cache, batch.out, *batch.options, None)
    batch.check(batch.oracle())


def test_decode_of_an_absorbed_mla_cache(kernels):
    """One kv head for all query heads, and the values are a slice of the keys."""
    batch = Batch(Shape(1, 16, 576, 512, torch.bfloat16, -1, 0.0, False), [70, 300], [1, 1], 0)
    batch.v_buffer = batch.k_buffer[..., :512]
    batch.cache = (batch.k_buffer, batch.v_buffer, *batch.cache[2:])
    kernels("paged_decode")(batch.q, *batch.cache, batch.out, *batch.options, None)
    batch.check(batch.oracle())


def test_decode_of_a_row_does_not_depend_on_the_rest_of_the_batch(kernels):
    """Bit for bit in the compiled kernels; the plain ones choose their blocks by the batch, so to rounding."""
    batch = Batch(PLAIN, [640, 33, 300], [1, 1, 1], 3)
    kernels("paged_decode")(batch.q, *batch.cache, batch.out, *batch.options, None)
    for row in range(3):
        alone = torch.empty_like(batch.out[row : row + 1])
        kernels("paged_decode")(
            batch.q[row : row + 1],
            *batch.cache[:3],
            batch.req_pool_indices[row : row + 1],
            batch.seq_lens[row : row + 1],
            alone,
            *batch.options,
            None,
        )
        exact = kernels is library.operator
        assert torch.allclose(alone[0], batch.out[row], rtol=0, atol=0 if exact else 1e-5)


@SETTINGS
@given(
    shape=shapes,
    lens=st.lists(st.tuples(st.integers(0, 300), st.integers(0, 80)), max_size=3),
    causal=st.sampled_from([True, True, False]),
    seed=st.integers(0, 9),
)
def test_extend_equals_the_oracle(kernels, shape, lens, causal, seed):
    batch = Batch(shape, [prefix + new for prefix, new in lens], [new for _, new in lens], seed)
    extend(kernels, batch, causal)
    check_extend(batch, causal)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("prefix", "new"), [(0, 1), (0, 64), (0, 65), (127, 2), (690, 10), (513, 33), (0, 300)]
)
def test_extend_at_the_edges_of_its_tiles(kernels, prefix, new, dtype):
    batch = Batch(PLAIN._replace(dtype=dtype), [prefix + new], [new], new)
    extend(kernels, batch)
    check_extend(batch)


def test_extend_of_one_token_is_decode(kernels):
    batch = Batch(PLAIN, [300, 17], [1, 1], 5)
    extend(kernels, batch)
    check_extend(batch)
    extended = batch.out.clone()
    kernels("paged_decode")(batch.q, *batch.cache, batch.out, *batch.options, None)
    assert torch.allclose(extended, batch.out, rtol=0, atol=1e-5)


def test_extend_leaves_rows_behind_the_last_token_alone(kernels):
    batch = Batch(PLAIN, [20, 9], [5, 9], 1)
    batch.new_lens = torch.tensor([5, 4])
    kernels("paged_extend")(
        batch.q, *batch.cache, torch.tensor([15, 0]), batch.new_lens, batch.out, *batch.options, True, None
    )
    assert bool((batch.out[9:] == 7.0).all())
    assert not bool((batch.out[:9] == 7.0).any())


@pytest.mark.parametrize("name", ["paged_decode", "paged_extend"])
def test_the_same_call_gives_the_same_bits(kernels, name):
    shape = Shape(2, 4, 64, 64, torch.bfloat16, -1, 0.0, False)
    news = [1, 1, 1] if name == "paged_decode" else [700, 90, 1]
    batch = Batch(shape, [700, 90, 601], news, 2)
    results = []
    for _ in range(3):
        if name == "paged_decode":
            kernels(name)(batch.q, *batch.cache, batch.out, *batch.options, None)
        else:
            extend(kernels, batch)
        results.append(batch.out.clone())
    assert all(torch.equal(result, results[0]) for result in results)


def test_int32_lengths_and_a_float32_query_over_a_bfloat16_cache(kernels):
    batch = Batch(Shape(2, 2, 64, 64, torch.bfloat16, -1, 0.0, False), [50, 3], [4, 3], 4)
    q, out = batch.q.float(), batch.out.float()
    tables = (
        batch.k_buffer,
        batch.v_buffer,
        batch.req_to_token,
        batch.req_pool_indices.int(),
        batch.seq_lens.int(),
    )
    kernels("paged_extend")(
        q,
        *tables,
        (batch.seq_lens - batch.new_lens).int(),
        batch.new_lens.int(),
        out,
        *batch.options,
        True,
        None,
    )
    assert torch.allclose(out.double(), batch.oracle(), rtol=0, atol=2e-4)


def test_a_large_score_does_not_overflow(kernels):
    batch = Batch(PLAIN, [40], [1], 6)
    batch.q.mul_(1e4)
    kernels("paged_decode")(batch.q, *batch.cache, batch.out, *batch.options, None)
    assert bool(batch.out.isfinite().all())
    assert math.isclose(float(batch.oracle()[0, 0, 0]), float(batch.out[0, 0, 0]), abs_tol=1e-3)


@pytest.mark.parametrize(
    ("break_it", "error"),
    [
        (lambda b: b.req_to_token.fill_(10**6), IndexError),
        (lambda b: b.req_pool_indices.fill_(99), IndexError),
        (lambda b: b.seq_lens.fill_(10**4), IndexError),
    ],
    ids=["slot", "row", "length"],
)
def test_an_index_outside_its_table_is_refused(break_it, error, kernels):
    batch = Batch(PLAIN, [40], [1], 6)
    break_it(batch)
    with pytest.raises(error):
        kernels("paged_decode")(batch.q, *batch.cache, batch.out, *batch.options, None)


@pytest.mark.parametrize("map_dtype", [torch.int64, torch.int32])
def test_slots_of_a_pool_of_its_own(kernels, map_dtype):
    """With a map, `req_to_token` names slots of another pool; only those in the window are looked up."""
    shape = PLAIN._replace(window=20)
    for name, new_lens in (("paged_decode", [1, 1]), ("paged_extend", [5, 40])):
        batch = Batch(shape, [70, 40], new_lens, seed=5)
        oracle = batch.oracle()
        slots = batch.k_buffer.shape[0]
        own = torch.randperm(3 * slots)[:slots]  # the other pool's slot of each slot here
        slot_map = torch.full((3 * slots,), slots + 100, dtype=map_dtype)  # of no use outside
        slot_map[own] = torch.arange(slots).to(map_dtype)
        table = own[batch.req_to_token.long()].int()
        row = batch.req_pool_indices[0]
        table[row, :10] = 3 * slots + 7  # out of the window, and gone
        cache = (batch.k_buffer, batch.v_buffer, table, batch.req_pool_indices, batch.seq_lens)
        lens = (batch.seq_lens - batch.new_lens, batch.new_lens) if name == "paged_extend" else ()
        causal = (True,) if name == "paged_extend" else ()
        arguments = (batch.q, *cache, *lens, batch.out, *batch.options, *causal, None)
        kernels(name)(*arguments, slot_map)
        batch.check(oracle)
        if kernels(name) is not library.FALLBACKS[name]:
            with pytest.raises(IndexError, match="slot_map names slot"):
                kernels(name)(*arguments, torch.full_like(slot_map, slots))
            with pytest.raises(IndexError, match="req_to_token names slot"):
                kernels(name)(*arguments, slot_map[:1])
