"""A later pipeline stage: what it is handed goes into static inputs, and a step that the capture does not fit runs
without its graph."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sglang_platform.core.attention.batch import ForwardBatch, ForwardMode
from sglang_platform.core.counters import snapshot
from sglang_platform.core.errors import PlatformError
from sglang_platform.core.graph.runner import GraphRunner

WIDTH = 4


class RunAgain:
    def __init__(self, run: Callable[[], Any], output: torch.Tensor) -> None:
        self.run, self.output = run, output

    def replay(self) -> None:
        self.output.copy_(self.run())


class SecondStage(GraphRunner):
    replays = 0

    def record(self, run: Callable[[], Any]) -> tuple[RunAgain, Any]:
        output = run()
        return RunAgain(run, output), output

    def _stage_buffers(self) -> dict[str, torch.Tensor]:
        return {"hidden_states": torch.zeros(self.max_bs, WIDTH), "residual": torch.zeros(self.max_bs, WIDTH)}


class Model:
    def forward(
        self, input_ids: Any, positions: Any, batch: Any, pp_proxy_tensors: Any = None
    ) -> torch.Tensor:
        rows = {name: tensor for name, tensor in pp_proxy_tensors.items() if name != "ids"}
        total = sum(tensor * (i + 1) for i, (_, tensor) in enumerate(sorted(rows.items())))
        rows["hidden_states"].add_(1000)  # models add in place to what they are handed
        return total + input_ids[:, None]


class Backend:
    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None: ...
    def get_cuda_graph_seq_len_fill_value(self) -> int:
        return 1

    def init_forward_metadata_out_graph(self, batch: Any, in_capture: bool = False) -> None: ...
    def init_forward_metadata_in_graph(self, batch: Any) -> None: ...


@pytest.fixture
def runner() -> SecondStage:
    return SecondStage(
        SimpleNamespace(model=Model(), attn_backend=Backend(), device="cpu", graph_batch_sizes=[1, 4])
    )


def batch(n: int) -> ForwardBatch:
    ones = torch.ones(n, dtype=torch.int64)
    return ForwardBatch(
        forward_mode=ForwardMode.DECODE,
        batch_size=n,
        input_ids=torch.arange(n) + 7,
        positions=ones,
        req_pool_indices=ones,
        seq_lens=ones,
        out_cache_loc=ones,
    )


def handed(n: int, seed: int, **more: torch.Tensor) -> Any:
    random = torch.Generator().manual_seed(seed)
    tensors = {name: torch.randn(n, WIDTH, generator=random) for name in ("hidden_states", "residual")}
    return SimpleNamespace(tensors={**tensors, **more, "__msg_type__": "proxy"})


@pytest.mark.parametrize("n", [1, 3, 4])
def test_a_replay_reads_what_this_step_was_handed(runner: SecondStage, n: int) -> None:
    before = snapshot()["graph.without_graph"]
    for seed in (1, 2):
        received = handed(n, seed)
        live = batch(n)
        expected = Model().forward(
            live.input_ids,
            None,
            None,
            {k: v.clone() for k, v in received.tensors.items() if k != "__msg_type__"},
        )
        assert torch.equal(runner.execute(live, received), expected)
    assert snapshot()["graph.without_graph"] == before


def test_rows_of_padding_are_zero(runner: SecondStage) -> None:
    runner.execute(batch(4), handed(4, 1))
    runner.stage.fits(handed(2, 2).tensors)
    runner.stage.load(handed(2, 2).tensors, 4)
    assert all(not buffer[2:].any() for buffer in runner.stage.buffers.values())


def test_a_tensor_that_the_capture_does_not_know_is_served_without_a_graph(runner: SecondStage) -> None:
    more = torch.full((3, WIDTH), 5.0)
    received = handed(3, 1, third=more)
    live = batch(3)
    tensors = received.tensors
    expected = tensors["hidden_states"] + 2 * tensors["residual"] + 3 * more + live.input_ids[:, None]
    before = snapshot()["graph.without_graph"]
    torch.testing.assert_close(runner.execute(live, received), expected)
    assert snapshot()["graph.without_graph"] == before + 1
    assert set(runner.stage.buffers) == {"hidden_states", "residual"}, "the next step has its graph again"


def test_a_step_without_what_the_stage_needs_is_refused(runner: SecondStage) -> None:
    with pytest.raises(PlatformError, match="came without its tensors") as caught:
        runner.execute(batch(2))
    assert "hidden_states" in str(caught.value)
