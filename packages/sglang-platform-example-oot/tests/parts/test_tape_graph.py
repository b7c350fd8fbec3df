"""The tape graph: a replay on new inputs gives what the function gives, and what it cannot replay it refuses."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sglang_platform.example_oot.graph import GraphCaptureError, TapeGraph

DraftStep = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def _norm_in_place(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.mul_(torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6))
    return y


def _write_a_slice(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = torch.zeros_like(x)
    y[:, : x.shape[1] // 2] += x[:, x.shape[1] // 2 :]
    return y


def _top_two(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    values, indices = torch.topk(torch.softmax(x, -1), 2)
    return torch.zeros_like(x).scatter_(1, indices, values / values.sum(-1, keepdim=True))


STEPS: list[DraftStep] = [
    lambda x, w: torch.nn.functional.linear(x, w),
    lambda x, w: torch.cat([torch.nn.functional.silu(a := x.chunk(2, -1)[0]), a], -1),
    lambda x, w: x.view(-1, 2, x.shape[1] // 2).transpose(1, 2).reshape(x.shape),
    lambda x, w: x.to(torch.bfloat16).float(),
    lambda x, w: x[torch.arange(x.shape[0] - 1, -1, -1)],
    lambda x, w: x + torch.full_like(x, 0.5),
    _norm_in_place,
    _write_a_slice,
    _top_two,
]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(STEPS), min_size=1, max_size=8), st.integers(1, 5), st.integers(0, 2**31))
def test_a_replay_on_new_inputs_is_bit_for_bit_the_function(
    steps: list[DraftStep], rows: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 8, generator=generator)
    w = torch.randn(8, 8, generator=generator)

    def run() -> torch.Tensor:
        y = x
        for step in steps:
            y = step(y, w)
        return y + 0.0  # so that the result is never the input itself

    graph = TapeGraph()
    output = graph.capture(run)
    address = output.data_ptr()
    for _ in range(3):
        x.copy_(torch.randn(rows, 8, generator=generator))
        expected = run()
        graph.replay()
        assert torch.equal(output, expected)
        assert output.data_ptr() == address


def test_weights_updated_in_place_are_seen() -> None:
    w = torch.eye(3)
    x = torch.ones(1, 3)
    graph = TapeGraph()
    output = graph.capture(lambda: x @ w)
    w.mul_(2)
    graph.replay()
    assert output.tolist() == [[2.0, 2.0, 2.0]]


def _add_one(x: torch.Tensor, out: torch.Tensor) -> None:
    out.copy_(x + 1)


def test_an_operator_that_declares_what_it_mutates_is_replayed() -> None:
    with torch.library._scoped_library("tape_graph_test", "FRAGMENT") as library:
        library.define("add_one(Tensor x, Tensor(a!) out) -> ()")
        library.impl("add_one", _add_one, "CPU")
        x, out = torch.zeros(2), torch.empty(2)
        graph = TapeGraph()
        result = graph.capture(lambda: (torch.ops.tape_graph_test.add_one(x, out), out)[1])
        x.fill_(4)
        graph.replay()
        assert result.tolist() == [5.0, 5.0]


@pytest.mark.parametrize(
    ("run", "named"),
    [
        (lambda x: x.sum().item(), "item"),
        (lambda x: x.tolist(), "tolist"),
        (lambda x: x.numpy(), "numpy"),
        (lambda x: 1 if x.sum() > 0 else 2, "__bool__"),
        (lambda x: x[x > 0], "aten.index.Tensor"),
        (lambda x: torch.nonzero(x), "aten.nonzero"),
        (lambda x: torch.masked_select(x, x > 0), "aten.masked_select"),
        (lambda x: torch.unique(x), "_unique2"),
    ],
)
def test_what_a_replay_cannot_repeat_is_refused_by_name(
    run: Callable[[torch.Tensor], object], named: str
) -> None:
    with pytest.raises(GraphCaptureError, match=named):
        TapeGraph().capture(lambda: run(torch.ones(3)))
