"""The state kernels in plain torch, against each recurrence written down token by token in float64."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from state_cases import Step, steps

from sglang_platform.core.contract.state_kernels import STATE_KERNELS
from sglang_platform.core.portable.torch.gated_delta import CHUNK, gated_delta_gates, gated_delta_rule
from sglang_platform.core.portable.torch.gated_norm import gated_rms_norm
from sglang_platform.core.portable.torch.short_convolution import short_convolution
from sglang_platform.core.portable.torch.state_kernels import PORTABLE_STATE_KERNELS
from sglang_platform.core.portable.torch.state_space import state_space

_TYPES = st.sampled_from([torch.float64, torch.float32])
_FEW = settings(deadline=None, max_examples=60)


def _close(got: torch.Tensor, wanted: torch.Tensor, dtype: torch.dtype) -> None:
    limit = 1e-9 if dtype == torch.float64 else 2e-4
    torch.testing.assert_close(got.double(), wanted.double(), rtol=limit, atol=limit)


def _unchanged(step: Step, before: torch.Tensor, after: torch.Tensor) -> None:
    assert torch.equal(before[step.untouched()], after[step.untouched()])


def test_every_kernel_of_the_contract_is_there() -> None:
    assert set(PORTABLE_STATE_KERNELS) == set(STATE_KERNELS)


@_FEW
@given(steps(), _TYPES, st.integers(1, 4), st.integers(0, 2), st.booleans(), st.booleans(), st.data())
def test_short_convolution(
    step: Step, dtype: torch.dtype, width: int, spare: int, biased: bool, silu: bool, data: st.DataObject
) -> None:
    torch.manual_seed(step.seed)
    channels = 3
    x = torch.randn(step.tokens, channels, dtype=dtype)
    weight = torch.randn(channels, width, dtype=dtype)
    bias = torch.randn(channels, dtype=dtype) if biased else None
    states = torch.randn(step.pool, channels, width - 1 + spare, dtype=dtype)
    resumes = None
    if not step.one_token_each:
        count = len(step.slots)
        resumes = torch.tensor(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    inputs, before = x.clone(), states.clone()
    got = short_convolution(
        x, weight, bias, step.starts, torch.tensor(step.slots), resumes, states, silu=silu
    )

    wanted = torch.zeros_like(x)
    for request, (tokens, slot) in enumerate(step.requests()):
        if slot < 0 or not tokens:
            continue
        past = before[slot, :, before.shape[2] - (width - 1) :]
        line = [past[:, j] for j in range(width - 1)]
        if resumes is not None and not resumes[request]:
            line = [torch.zeros(channels, dtype=dtype)] * (width - 1)
        line += [inputs[t] for t in tokens]
        for place, token in enumerate(tokens):
            y = sum(
                (line[place + j] * weight[:, j] for j in range(width)), torch.zeros(channels, dtype=dtype)
            )
            y = y if bias is None else y + bias
            wanted[token] = y * y.sigmoid() if silu else y
        for j in range(width - 1):
            assert torch.equal(states[slot, :, states.shape[2] - 1 - j], line[-1 - j])
    _close(got, wanted, dtype)
    assert torch.equal(x, inputs)
    _unchanged(step, before, states)


@_FEW
@given(steps(), _TYPES, st.sampled_from([1, 2]))
def test_gated_delta_rule(step: Step, dtype: torch.dtype, group: int) -> None:
    torch.manual_seed(step.seed)
    heads, keys, values = 2, 4, 3
    q, k = torch.randn(2, step.tokens, heads, keys, dtype=dtype).unbind()
    v = torch.randn(step.tokens, heads * group, values, dtype=dtype)
    log_decay = -torch.rand(step.tokens, heads * group, dtype=dtype) * 3
    rate = torch.rand(step.tokens, heads * group, dtype=dtype)
    states = torch.randn(step.pool, heads * group, values, keys, dtype=dtype)
    given_inputs, before = [x.clone() for x in (q, k, v, log_decay, rate)], states.clone()
    got, chunk_states = gated_delta_rule(
        q, k, v, log_decay, rate, step.starts, torch.tensor(step.slots), states, scale=0.5
    )

    wanted, final, on_grid = torch.zeros_like(v).double(), before.double(), []
    for tokens, slot in step.requests():
        if slot < 0:
            on_grid += [None] * -(-len(tokens) // CHUNK)
            continue
        for place, token in enumerate(tokens):
            if place % CHUNK == 0:
                on_grid.append(final[slot].clone())
            for head in range(heads * group):
                query, key = (m[token, head // group].double() for m in (q, k))
                query = query / (query.square().sum() + 1e-6).sqrt()
                key = key / (key.square().sum() + 1e-6).sqrt()
                state = final[slot, head] * log_decay[token, head].double().exp()
                error = v[token, head].double() - state @ key
                final[slot, head] = state + rate[token, head] * torch.outer(error, key)
                wanted[token, head] = 0.5 * final[slot, head] @ query
    _close(got, wanted, dtype)
    _close(states, final, dtype)
    _unchanged(step, before, states)
    assert all(torch.equal(x, y) for x, y in zip((q, k, v, log_decay, rate), given_inputs, strict=True))
    if step.one_token_each:
        assert chunk_states is None
    else:
        assert chunk_states is not None
        assert len(chunk_states) == len(on_grid)
        for found, expected in zip(chunk_states, on_grid, strict=True):
            if expected is not None:
                _close(found, expected, dtype)


def test_gated_delta_rule_with_the_same_key_at_every_token() -> None:
    """The worst case for the triangular solve: the products of the chunk's rows do not die out."""
    torch.manual_seed(0)
    tokens = CHUNK
    key = torch.randn(1, 1, 8).expand(tokens, 1, 8).contiguous()
    v, states = torch.randn(tokens, 1, 8), torch.zeros(1, 1, 8, 8)
    none, all_of_it = torch.zeros(tokens, 1), torch.ones(tokens, 1)
    starts = torch.tensor([0, tokens], dtype=torch.int32)
    got, _ = gated_delta_rule(key, key, v, none, all_of_it, starts, torch.tensor([0]), states, scale=1.0)
    torch.testing.assert_close(
        got, v, rtol=1e-4, atol=1e-4
    )  # each token overwrites what the one before wrote


@_FEW
@given(steps(), _TYPES, st.sampled_from([1, 2]), st.booleans())
def test_state_space(step: Step, dtype: torch.dtype, group: int, direct: bool) -> None:
    torch.manual_seed(step.seed)
    groups, head, width = 2, 3, 4
    heads = groups * group
    x = torch.randn(step.tokens, heads, head, dtype=dtype)
    rate = torch.rand(step.tokens, heads, dtype=dtype)
    a, d = -torch.rand(heads, dtype=dtype) * 4, torch.randn(heads, dtype=dtype) if direct else None
    b, c = torch.randn(2, step.tokens, groups, width, dtype=dtype).unbind()
    states = torch.randn(step.pool, heads, head, width, dtype=dtype)
    before = states.clone()
    got = state_space(x, rate, a, b, c, d, step.starts, torch.tensor(step.slots), states)

    final = before.double()
    for tokens, slot in step.requests():
        for token in tokens:
            for h in range(heads):
                if slot < 0:
                    if step.one_token_each:
                        assert not got[token].any()
                    continue
                decay = (rate[token, h] * a[h]).double().exp()
                final[slot, h] = final[slot, h] * decay + rate[token, h] * torch.outer(
                    x[token, h].double(), b[token, h // group].double()
                )
                wanted = final[slot, h] @ c[token, h // group].double()
                if d is not None:
                    wanted = wanted + d[h] * x[token, h]
                _close(got[token, h], wanted, dtype)
    _close(states, final, dtype)
    _unchanged(step, before, states)


@_FEW
@given(st.integers(0, 2**31), st.integers(0, 4), st.booleans(), st.sampled_from([None, 2, 4]))
def test_gated_rms_norm(seed: int, rows: int, gate_first: bool, group_size: int | None) -> None:
    torch.manual_seed(seed)
    x, gate = torch.randn(2, rows, 8, dtype=torch.float64).unbind()
    weight = torch.randn(8, dtype=torch.float64)
    got = gated_rms_norm(
        x, gate, weight, epsilon=1e-3, activation="silu", group_size=group_size, gate_first=gate_first
    )
    opened = gate * gate.sigmoid()
    for row in range(rows):
        for first in range(0, 8, group_size or 8):
            part = slice(first, first + (group_size or 8))
            values = x[row, part] * opened[row, part] if gate_first else x[row, part]
            wanted = values / (values.square().mean() + 1e-3).sqrt() * weight[part]
            if not gate_first:
                wanted = wanted * opened[row, part]
            _close(got[row, part], wanted, torch.float64)


def test_gates() -> None:
    a, b = torch.randn(2, 5, 3).unbind()
    decay_log, bias = torch.randn(3), torch.randn(3)
    log_decay, rate = gated_delta_gates(a, b, decay_log, bias)
    torch.testing.assert_close(log_decay, -decay_log.exp() * torch.log1p((a + bias).exp()))
    torch.testing.assert_close(rate, 1 / (1 + (-b).exp()))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_pool_of_a_short_type_is_computed_in_float32(dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    states = torch.randn(3, 2, 4, 4).to(dtype)
    q, k, v = torch.randn(3, 1, 2, 4).to(dtype).unbind()
    gates = torch.full((1, 2), -0.5), torch.full((1, 2), 0.5)
    wide = states.float()
    got, _ = gated_delta_rule(q, k, v, *gates, None, torch.tensor([1]), states, scale=1.0)
    exact, _ = gated_delta_rule(
        q.float(), k.float(), v.float(), *gates, None, torch.tensor([1]), wide, scale=1.0
    )
    assert got.dtype == dtype
    assert torch.equal(got, exact.to(dtype))
    assert torch.equal(states, wide.to(dtype))


def test_tokens_of_no_request_come_out_of_the_state_space_as_zero() -> None:
    x, b, c = torch.randn(5, 2, 4), torch.randn(5, 1, 3), torch.randn(5, 1, 3)
    step, a, d = torch.rand(5, 2), -torch.rand(2), torch.ones(2)
    starts, slots = torch.tensor([0, 3], dtype=torch.int32), torch.tensor([1])
    got = state_space(x, step, a, b, c, d, starts, slots, torch.zeros(2, 2, 4, 3))
    assert got[:3].all()
    assert not got[3:].any()
