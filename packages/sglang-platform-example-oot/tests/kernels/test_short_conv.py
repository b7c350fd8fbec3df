"""Short causal convolutions against torch's convolution in float64, request by request.

Error bound: float32 sums of `width` products and the bias, then one rounding:
|out - oracle| <= u |oracle| + (width + 4) 2^-22 (|w| * |x| + |b| + 1), the last term for silu's exponential.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sglang_platform.example_oot.kernels import library

UNIT_ROUNDOFF = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
SETTINGS = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@SETTINGS
@given(
    lengths=st.sampled_from([[1], [3, 0, 7], [1, 1, 1], [40, 2], []]), channels=st.sampled_from([1, 16, 63, 130]),
    width=st.sampled_from([2, 3, 4]), dtype=st.sampled_from(list(UNIT_ROUNDOFF)),
    state_dtype=st.sampled_from(list(UNIT_ROUNDOFF)), biased=st.booleans(), silu=st.booleans(),
    resume=st.sampled_from([None, True, False]), longer=st.sampled_from([0, 2]),
)  # fmt: skip
def test_convolution(kernels, lengths, channels, width, dtype, state_dtype, biased, silu, resume, longer):
    random = torch.Generator().manual_seed(sum(lengths) + channels)
    tokens, kept = sum(lengths), width - 1

    def normal(*size: int) -> torch.Tensor:
        return torch.randn(*size, generator=random)

    x, weight = normal(tokens, channels).to(dtype), normal(channels, width).to(dtype)
    bias = normal(channels).to(dtype) if biased else None
    states = normal(len(lengths) + 3, channels, kept + longer).to(state_dtype)
    before = states.clone()
    slots = torch.randperm(len(lengths) + 2, generator=random)[: len(lengths)] + 1
    resumes = None if resume is None else torch.full((len(lengths),), resume)
    starts = torch.tensor([0, *lengths]).cumsum(0).int()
    out = torch.full_like(x, 7.0)
    one_each = lengths and all(n == 1 for n in lengths)
    kernels("short_conv")(x, weight, bias, None if one_each else starts, slots, resumes, states, out, silu)

    for r, n in enumerate(lengths):
        here, slot = slice(int(starts[r]), int(starts[r + 1])), slots[r]
        if n == 0:
            assert torch.equal(states[slot], before[slot])
            continue
        state = before[slot, :, longer:].double() * (resume is not False)
        inputs = torch.cat([state, x[here].T.double()], 1)
        y, size = (
            torch.nn.functional.conv1d(i[None], w[:, None], groups=channels)[0]
            for i, w in ((inputs, weight.double()), (inputs.abs(), weight.double().abs()))
        )
        if bias is not None:
            y, size = y + bias.double()[:, None], size + bias.double().abs()[:, None]
        oracle = (torch.nn.functional.silu(y) if silu else y).T
        bound = UNIT_ROUNDOFF[dtype] * oracle.abs() + (width + 4) * 2.0**-22 * (size.T + 1)
        assert bool(((out[here].double() - oracle).abs() <= bound).all())
        assert torch.equal(states[slot, :, longer:], inputs[:, n:].to(state_dtype))
    others = [i for i in range(len(states)) if i not in slots.tolist()]
    assert torch.equal(states[others], before[others])


def test_padding_is_neither_read_nor_written(kernels):
    x, weight, states = torch.randn(3, 8), torch.randn(8, 3), torch.randn(2, 8, 2)
    x[1:] = float("nan")
    before, out = states.clone(), torch.full((3, 8), 7.0)
    kernels("short_conv")(x, weight, None, None, torch.tensor([1, -1, -1]), None, states, out, False)
    assert torch.equal(states[0], before[0])
    assert bool(states[1].isfinite().all())
    assert bool((out[1:] == 7).all())
    assert bool(out[0].isfinite().all())


def test_in_steps_as_at_once(kernels):
    x, weight = torch.randn(20, 48), torch.randn(48, 4)
    whole, parts = torch.empty(20, 48), torch.empty(20, 48)
    kernels("short_conv")(
        x,
        weight,
        None,
        torch.tensor([0, 20]),
        torch.tensor([0]),
        torch.tensor([False]),
        torch.empty(1, 48, 3),
        whole,
    )
    state = torch.zeros(1, 48, 3)
    for begin, end in ((0, 2), (2, 3), (3, 11), (11, 20)):
        kernels("short_conv")(
            x[begin:end],
            weight,
            None,
            torch.tensor([0, end - begin]),
            torch.tensor([0]),
            None,
            state,
            parts[begin:end],
        )
    torch.testing.assert_close(parts, whole, rtol=0, atol=1e-6)


def test_wrong_arguments_are_named(kernels):
    if kernels("short_conv") is library.FALLBACKS["short_conv"]:
        pytest.skip("the plain torch function leaves the checks to torch")
    x, weight, states, out = torch.randn(3, 8), torch.randn(8, 3), torch.randn(2, 8, 2), torch.empty(3, 8)
    slots = torch.tensor([0])
    with pytest.raises(RuntimeError, match="shapes do not fit"):
        kernels("short_conv")(x, weight, None, torch.tensor([0, 3]), slots, None, states[..., :1], out)
    with pytest.raises(RuntimeError, match="starts must rise"):
        kernels("short_conv")(x, weight, None, torch.tensor([0, 4]), slots, None, states, out)
    with pytest.raises(IndexError, match="slots holds 2"):
        kernels("short_conv")(x, weight, None, torch.tensor([0, 3]), slots + 2, None, states, out)
