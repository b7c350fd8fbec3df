"""Pieces of a model captured with the example's graphs: on device type `cpu` the recorded list of operators.

The device's own graphs are tried in `conformance/tests/host/test_piecewise.py`, through SGLang's compiler.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from sglang_platform.core import counter
from sglang_platform.core.errors import PlatformError

from sglang_platform.example_oot.graph_runner import ExampleOOTPiecewiseBackend

TOKEN_COUNTS = [16, 5]


def captured(piece: Any, index: int = 0) -> ExampleOOTPiecewiseBackend:
    config = SimpleNamespace(get_capture_sizes=lambda: TOKEN_COUNTS)
    return ExampleOOTPiecewiseBackend(None, config, {}, None, index, 2, [1], piece, None)


@torch.no_grad()
def test_pieces_around_attention_give_bit_for_bit_what_the_model_gives() -> None:
    weights = torch.randn(3, 8, 8, generator=torch.Generator().manual_seed(0))

    def before(x: torch.Tensor, tokens: int) -> tuple[torch.Tensor, ...]:
        q, k = x @ weights[0], x @ weights[1]
        return q, k, x, torch.empty_like(x)

    def attention(q: torch.Tensor, k: torch.Tensor, out: torch.Tensor) -> None:
        out.copy_(torch.softmax(q @ k.T, -1) @ k)  # stays eager: its sizes are the batch's

    def after(out: torch.Tensor, tokens: int, residual: torch.Tensor) -> torch.Tensor:
        residual.add_(out)  # a fused op writes its input
        return torch.nn.functional.silu(residual @ weights[2])

    def model(x: torch.Tensor, before: Any, after: Any) -> torch.Tensor:
        q, k, residual, out = before(x.clone() if before is eager[0] else x, len(x))
        attention(q, k, out)
        return after(out, len(x), residual.clone() if after is eager[1] else residual)  # type: ignore[no-any-return]

    eager = before, after
    pieces = captured(before), captured(after, index=1)
    inputs = torch.zeros(16, 8)
    replays = counter("piecewise.replays").value
    for tokens in (16, 5, 9):
        for seed in range(4):
            values = torch.randn(16, 8, generator=torch.Generator().manual_seed(seed))
            expected = model(values[:tokens], *eager)
            inputs.copy_(values)
            assert torch.equal(model(inputs[:tokens], *pieces), expected), (tokens, seed)
    assert counter("piecewise.replays").value == replays + 2 * 2 * 2


def test_a_piece_that_reads_a_value_is_refused_with_the_way_out() -> None:
    backend = captured(lambda x, tokens: x * x.max().item())
    backend(torch.ones(16, 8), 16)
    with pytest.raises(
        PlatformError, match="piece 0 of the model could not be captured for 16 tokens"
    ) as caught:
        backend(torch.ones(16, 8), 16)
    assert "item() cannot be captured" in str(caught.value)
    assert "--cuda-graph-backend-prefill disabled" in str(caught.value)
