"""The piecewise backend: run, capture, replay; and a call that no graph fits is served by the piece itself."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sglang_platform.core.counters import snapshot
from sglang_platform.core.errors import PlatformError
from sglang_platform.core.graph.piecewise import PiecewiseBackend

WEIGHT = torch.arange(16.0).view(4, 4) - 7


class RunAgain:
    def __init__(self, run: Callable[[], Any], output: torch.Tensor) -> None:
        self.run, self.output = run, output

    def replay(self) -> None:
        self.output.copy_(self.run())


class Backend(PiecewiseBackend):
    allowed = True

    def record(self, run: Callable[[], Any]) -> tuple[RunAgain, Any]:
        output = run()
        return RunAgain(run, output), output

    def may_capture(self) -> bool:
        return self.allowed


def build(cls: type[PiecewiseBackend], token_counts: list[int], sizes: tuple[int, ...] = (1,)) -> Any:
    config = SimpleNamespace(get_capture_sizes=lambda: token_counts)
    return cls(None, config, {}, None, 0, 2, list(sizes), piece, None)


def piece(x: torch.Tensor, tokens: int, weight: torch.Tensor, rows: int = 1) -> torch.Tensor:
    return (x @ weight).relu() * rows


@pytest.fixture
def counted() -> Callable[[], list[int]]:
    """How many captures, replays and calls without a graph there were since it was last asked."""
    names = [f"piecewise.{name}" for name in ("captures", "replays", "without_graph")]
    last = [snapshot()[name] for name in names]

    def since() -> list[int]:
        now = [snapshot()[name] for name in names]
        found = [after - before for before, after in zip(last, now, strict=True)]
        last[:] = now
        return found

    return since


def call(backend: Any, inputs: torch.Tensor, tokens: int, seed: int) -> None:
    """New values in the static inputs; the answer must be the piece's."""
    inputs.copy_(torch.randint(-9, 9, inputs.shape, generator=torch.Generator().manual_seed(seed)))
    x = inputs[:tokens]
    assert torch.equal(backend(x, tokens, WEIGHT), piece(x, tokens, WEIGHT))


def test_each_token_count_is_run_then_captured_then_replayed(counted: Callable[[], list[int]]) -> None:
    backend, inputs = build(Backend, [8, 3]), torch.zeros(8, 4)
    for tokens in (8, 3):
        call(backend, inputs, tokens, seed=0)
        assert counted() == [0, 0, 0]
        call(backend, inputs, tokens, seed=1)
        assert counted() == [1, 0, 0]
        for seed in range(2, 5):
            call(backend, inputs, tokens, seed)
        assert counted() == [0, 3, 0]
    assert list(backend.captured) == [8, 3]
    assert backend.device == torch.device("cpu")


def test_a_token_count_that_is_not_listed_runs_the_piece(counted: Callable[[], list[int]]) -> None:
    backend, inputs = build(Backend, [8]), torch.zeros(8, 4)
    for seed in range(3):
        call(backend, inputs, 5, seed)
    assert counted() == [0, 0, 3]
    assert build(Backend, [8], sizes=())(inputs, 8, WEIGHT).shape == (8, 4)
    assert counted() == [0, 0, 1]


def test_an_argument_that_lies_elsewhere_is_not_replayed_over(counted: Callable[[], list[int]]) -> None:
    backend, inputs = build(Backend, [8]), torch.zeros(8, 4)
    for seed in range(3):
        call(backend, inputs, 8, seed)
    counted()
    call(backend, torch.zeros(8, 4), 8, seed=3)
    assert counted() == [0, 0, 1]
    assert torch.equal(backend(inputs, 8, WEIGHT * 2), piece(inputs, 8, WEIGHT * 2))
    assert counted() == [0, 0, 1]
    call(backend, inputs, 8, seed=4)
    assert counted() == [0, 1, 0]


def test_a_second_size_is_part_of_what_was_captured(counted: Callable[[], list[int]]) -> None:
    backend, inputs = build(Backend, [8], sizes=(1, 3)), torch.ones(8, 4)
    for rows in (2, 2, 2, 5):
        assert torch.equal(backend(inputs, 8, WEIGHT, rows), piece(inputs, 8, WEIGHT, rows))
    assert counted() == [1, 1, 1]


def test_nothing_is_captured_while_the_host_forbids_it(counted: Callable[[], list[int]]) -> None:
    backend, inputs = build(Backend, [8]), torch.zeros(8, 4)
    backend.allowed = False
    for seed in range(3):
        call(backend, inputs, 8, seed)
    assert counted() == [0, 0, 0]
    backend.allowed = True
    for seed in range(3):
        call(backend, inputs, 8, seed)
    assert counted() == [1, 1, 0]


@pytest.mark.parametrize("token_counts", [[], [0, 8]])
def test_token_counts_that_cannot_be_captured_are_refused(token_counts: list[int]) -> None:
    with pytest.raises(PlatformError, match="cannot capture the token counts") as caught:
        build(Backend, token_counts)
    assert "--cuda-graph-bs-prefill" in str(caught.value)


def test_record_is_the_devices() -> None:
    backend, inputs = build(PiecewiseBackend, [8]), torch.zeros(8, 4)
    call(backend, inputs, 8, seed=0)
    with pytest.raises(NotImplementedError, match=r"record\(\) must be implemented"):
        backend(inputs, 8, WEIGHT)
