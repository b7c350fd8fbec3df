"""What the graph runner adds, with a recording of operators standing in for CUDA's graphs.

The stand-in really replays: it runs the recorded operators again on the same tensors. What it cannot show is what only
a GPU can: stream order, the memory pool's reuse, and kernels that refuse capture.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sglang_platform.core.attention.batch import ForwardBatch, ForwardMode
from sglang_platform.core.counters import counter
from sglang_platform.core.errors import PlatformError
from sglang_platform.core.portable.torch.graph_runner import TorchGraphRunner

graph = pytest.importorskip(
    "sglang_platform.example_oot.graph", reason="its recording of operators stands in"
)


class Runner(TorchGraphRunner):
    _device_type = "cuda"


class StandIn:
    """torch.cuda's graph API, with what was asked of it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.refuse = False
        self.pools = 0

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        stand_in = self

        class Stream:
            def wait_stream(self, other: Any) -> None:
                stand_in.asked.append(("wait", other))

        class Capture:
            def __init__(self, tape: Any, pool: Any = None, stream: Any = None) -> None:
                stand_in.asked.append(("capture", (pool, stream)))
                self.tape, self.recorder = tape, graph._Recorder()

            def __enter__(self) -> None:
                if stand_in.refuse:
                    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB\nmore lines")
                self.recorder.__enter__()

            def __exit__(self, *error: Any) -> None:
                self.recorder.__exit__(*error)
                steps = (graph._replay_step(*call) for call in self.recorder.calls)
                self.tape._steps = [step for step in steps if step is not None]

        class Current:
            def __init__(self, stream: Any) -> None:
                stand_in.asked.append(("stream", stream))

            def __enter__(self) -> None: ...

            def __exit__(self, *error: Any) -> None: ...

        def handle() -> tuple[int, int]:
            self.pools += 1
            return (0, self.pools)

        for name, value in {
            "CUDAGraph": graph.TapeGraph,
            "graph": Capture,
            "graph_pool_handle": handle,
            "Stream": Stream,
            "stream": Current,
            "current_stream": Stream,
            "synchronize": lambda: self.asked.append(("synchronize", None)),
        }.items():
            monkeypatch.setattr(torch.cuda, name, value)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    stand_in = StandIn()
    stand_in.install(monkeypatch)
    return stand_in


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(50, 8)
        self.out = torch.nn.Linear(8, 50)
        for weight in self.parameters():  # whole numbers, so that sums are exact in any order
            weight.data = torch.randint(-9, 10, weight.shape).float()
        self.forwards: list[int] = []

    def forward(self, input_ids: torch.Tensor, positions: torch.Tensor, batch: Any) -> torch.Tensor:
        self.forwards.append(input_ids.numel())
        return self.out(self.embed(input_ids) + positions[:, None])


class Backend:
    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None: ...
    def get_cuda_graph_seq_len_fill_value(self) -> int:
        return 1

    def init_forward_metadata_out_graph(self, batch: Any, in_capture: bool = False) -> None: ...
    def init_forward_metadata_in_graph(self, batch: Any) -> None: ...


@pytest.fixture
def runner(cuda: StandIn) -> TorchGraphRunner:
    with torch.no_grad():
        return Runner(
            SimpleNamespace(
                model=Model(), attn_backend=Backend(), device="cpu", graph_batch_sizes=[1, 4, 2, 8]
            )
        )


def batch(n: int, seed: int) -> ForwardBatch:
    random = torch.Generator().manual_seed(seed)

    def ids(high: int) -> torch.Tensor:
        return torch.randint(0, high, (n,), generator=random)

    return ForwardBatch(
        forward_mode=ForwardMode.DECODE,
        batch_size=n,
        input_ids=ids(50),
        positions=ids(100),
        req_pool_indices=ids(9),
        seq_lens=ids(9) + 1,
        out_cache_loc=ids(9),
    )


def test_largest_first_in_one_pool_on_one_stream(cuda: StandIn, runner: TorchGraphRunner) -> None:
    assert list(runner.captured) == [8, 4, 2, 1]
    # Each bucket once to warm up and once under capture.
    assert runner.model_runner.model.forwards == [8, 8, 4, 4, 2, 2, 1, 1]
    captures = [what for name, what in cuda.asked if name == "capture"]
    assert len(captures) == 4
    assert len({pool for pool, _ in captures}) == 1
    assert len({id(stream) for _, stream in captures}) == 1
    assert captures[0][1] is not None
    assert [what for name, what in cuda.asked if name == "stream"] == [captures[0][1]]
    assert ("wait", captures[0][1]) in cuda.asked


@torch.no_grad()
def test_replay_equals_eager_for_every_size(runner: TorchGraphRunner) -> None:
    model = runner.model_runner.model
    replays = counter("torch.graph.replays").value
    for n in range(1, 9):
        live = batch(n, n)
        assert runner.can_run_graph(live)
        forwards = len(model.forwards)
        got = runner.execute(live).clone()
        assert len(model.forwards) == forwards, "a replay runs no Python of the model"
        assert torch.equal(got, model(live.input_ids, live.positions, live))
    assert counter("torch.graph.replays").value == replays + 8
    assert not runner.can_run_graph(batch(9, 0))


@torch.no_grad()
def test_an_update_in_place_needs_no_capture(cuda: StandIn, runner: TorchGraphRunner) -> None:
    model, live = runner.model_runner.model, batch(3, 1)
    model.out.weight.mul_(-2)
    assert torch.equal(runner.execute(live), model(live.input_ids, live.positions, live))


@torch.no_grad()
def test_weights_elsewhere_are_captured_again(cuda: StandIn, runner: TorchGraphRunner) -> None:
    model, live = runner.model_runner.model, batch(3, 2)
    model.out.weight = torch.nn.Parameter(torch.randint(-9, 10, (50, 8)).float())
    stale = runner.execute(live).clone()
    fresh = model(live.input_ids, live.positions, live)
    assert not torch.equal(stale, fresh)
    runner.capture()
    assert torch.equal(runner.execute(live), fresh)
    captures = [what for name, what in cuda.asked if name == "capture"]
    assert len(captures) == 8
    assert len(set(captures)) == 1, "the same pool and stream again"


def test_a_refused_capture_says_what_to_do(cuda: StandIn) -> None:
    cuda.refuse = True
    with pytest.raises(PlatformError, match="could not be captured") as caught, torch.no_grad():
        Runner(SimpleNamespace(model=Model(), attn_backend=Backend(), device="cpu", graph_batch_sizes=[1]))
    assert "out of memory" in str(caught.value)
    assert "--disable-cuda-graph" in str(caught.value)
    assert "more lines" not in str(caught.value)
