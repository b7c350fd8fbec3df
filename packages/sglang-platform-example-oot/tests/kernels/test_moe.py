"""SwiGLU experts against a float64 oracle that computes every pair of token and expert on its own.

Error bound: |out - oracle| <= (1e-5 + 8 u) scale, with u the unit roundoff of the type and `scale` the largest
|oracle|; 8 u because the matrix-product path rounds between its steps, as SGLang's own does.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

UNIT_ROUNDOFF = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
SETTINGS = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


class Experts:
    def __init__(
        self, tokens: int, top_k: int, experts: int, hidden: int, inter: int, dtype: torch.dtype
    ) -> None:
        random = torch.Generator().manual_seed(tokens + 7 * experts)

        def normal(*size: int) -> torch.Tensor:
            return torch.randn(*size, generator=random)

        self.x = normal(tokens, hidden).to(dtype)
        self.w13 = (normal(experts, 2 * inter, hidden) * hidden**-0.5).to(dtype)
        self.w2 = (normal(experts, hidden, inter) * inter**-0.5).to(dtype)
        self.weights = torch.rand(tokens, top_k, generator=random) + 0.1
        chosen = [torch.randperm(experts, generator=random)[:top_k] for _ in range(tokens)]
        self.ids = torch.stack(chosen) if chosen else torch.zeros(0, top_k, dtype=torch.int64)
        self.out = torch.full_like(self.x, 5.0)

    def run(self, kernels, weight_on_input: bool = False) -> None:
        kernels("moe_experts")(self.x, self.w13, self.w2, self.weights, self.ids, self.out, weight_on_input)

    def oracle(self, weight_on_input: bool = False) -> torch.Tensor:
        result = torch.zeros(self.x.shape, dtype=torch.float64)
        for token in range(self.x.shape[0]):
            for weight, expert in zip(self.weights[token].double(), self.ids[token].tolist(), strict=True):
                if not 0 <= expert < self.w13.shape[0]:
                    continue
                x = self.x[token].double() * (weight if weight_on_input else 1.0)
                gate, up = (self.w13[expert].double() @ x).chunk(2)
                y = self.w2[expert].double() @ (torch.nn.functional.silu(gate) * up)
                result[token] += y * (1.0 if weight_on_input else weight)
        return result

    def check(self, oracle: torch.Tensor) -> None:
        scale = float(oracle.abs().max()) if oracle.numel() else 0.0
        error = float((self.out.double() - oracle).abs().max()) if oracle.numel() else 0.0
        assert error <= (1e-5 + 8 * UNIT_ROUNDOFF[self.x.dtype]) * scale


@SETTINGS
@given(
    tokens=st.sampled_from([0, 1, 2, 3, 8, 9, 32]), routing=st.sampled_from([(1, 1), (1, 4), (2, 3), (4, 8), (8, 16)]),
    hidden=st.sampled_from([8, 33, 64]), inter=st.sampled_from([8, 20, 48]), dtype=st.sampled_from(list(UNIT_ROUNDOFF)),
    weight_on_input=st.booleans(),
)  # fmt: skip
def test_experts_equal_the_oracle(kernels, tokens, routing, hidden, inter, dtype, weight_on_input):
    batch = Experts(tokens, *routing, hidden, inter, dtype)
    batch.run(kernels, weight_on_input)
    batch.check(batch.oracle(weight_on_input))


@pytest.mark.parametrize("dtype", list(UNIT_ROUNDOFF))
def test_a_prefill_of_many_tokens_per_expert(kernels, dtype):
    batch = Experts(200, 2, 4, 64, 48, dtype)
    batch.run(kernels)
    batch.check(batch.oracle())


@pytest.mark.parametrize("tokens", [3, 150])
def test_experts_of_other_ranks_add_nothing(kernels, tokens):
    batch = Experts(tokens, 2, 4, 32, 16, torch.float32)
    batch.ids[::2, 0] = -1
    batch.ids[1::3, 1] = 4
    batch.ids[0] = -1
    batch.run(kernels)
    batch.check(batch.oracle())
    assert bool((batch.out[0] == 0).all())


def test_experts_nobody_chose_are_not_read(kernels):
    batch = Experts(4, 2, 8, 32, 16, torch.float32)
    unused = [e for e in range(8) if not bool((batch.ids == e).any())]
    assert unused
    oracle = batch.oracle()
    batch.w13[unused] = float("nan")
    batch.w2[unused] = float("nan")
    batch.run(kernels)
    batch.check(oracle)


def test_int32_ids_and_the_same_bits_twice(kernels):
    batch = Experts(20, 4, 8, 64, 32, torch.bfloat16)
    batch.run(kernels)
    first = batch.out.clone()
    batch.ids = batch.ids.int()
    batch.run(kernels)
    assert torch.equal(first, batch.out)
