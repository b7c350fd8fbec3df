"""Graphs of the device: replays on new inputs, what a capture holds, and what it refuses."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace

import pytest
import torch

from sglang_platform.example_oot.biased_experts import biased_experts
from sglang_platform.example_oot.device_graph import DeviceGraph
from sglang_platform.example_oot.graph import GraphCaptureError


def test_a_graph_replays_on_new_inputs_and_keeps_its_memory_to_itself(
    device_type: str, device: ModuleType
) -> None:
    weight = torch.randn(8, 8).to(device_type)
    inputs = torch.zeros(4, 8, device=device_type)
    graph = DeviceGraph()
    out = graph.capture(lambda: torch.relu(inputs @ weight) + inputs)
    second = DeviceGraph(memory_of=graph)
    out2 = second.capture(lambda: (inputs[:2] @ weight).tanh())
    for seed in range(3):
        x = torch.randn(4, 8, generator=torch.Generator().manual_seed(seed))
        inputs.copy_(x)
        noise = [
            torch.randn(4, 8, device=device_type) for _ in range(8)
        ]  # would land in the graph's memory if that were free
        graph.replay()
        assert torch.equal(out.cpu(), torch.relu(x @ weight.cpu()) + x)
        second.replay()
        assert torch.equal(out2.cpu(), (x[:2] @ weight.cpu()).tanh())
        del noise
    before = device.memory_reserved()
    for _ in range(50):
        graph.replay()
    torch.accelerator.synchronize()
    assert device.memory_reserved() == before


@pytest.mark.parametrize("tokens", [1, 16])
def test_a_graph_of_experts_with_biases_follows_the_choice_of_each_replay(
    device_type: str, tokens: int
) -> None:
    """One token gathers the weights of its experts, sixteen go through all."""
    generator = torch.Generator().manual_seed(0)
    shapes = {
        "w13_weight": (8, 20, 24),
        "w2_weight": (8, 24, 10),
        "w13_weight_bias": (8, 20),
        "w2_weight_bias": (8, 24),
    }
    host = {name: torch.randn(shape, generator=generator) * 0.3 for name, shape in shapes.items()}
    layers = [
        SimpleNamespace(**{name: one.to(where) for name, one in host.items()})
        for where in ("cpu", device_type)
    ]
    x, weights = torch.zeros(tokens, 24, device=device_type), torch.zeros(tokens, 2, device=device_type)
    ids = torch.zeros(tokens, 2, dtype=torch.int32, device=device_type)
    graph = DeviceGraph()
    out = graph.capture(lambda: biased_experts(layers[1], x, weights, ids, 1.702, 0.7))
    for _ in range(3):
        chosen = torch.stack([torch.randperm(8, generator=generator)[:2] for _ in range(tokens)]).to(
            torch.int32
        )
        given = (
            torch.randn(tokens, 24, generator=generator),
            torch.rand(tokens, 2, generator=generator),
            chosen,
        )
        for buffer, value in zip((x, weights, ids), given, strict=True):
            buffer.copy_(value)
        graph.replay()
        torch.testing.assert_close(
            out.cpu(), biased_experts(layers[0], *given, 1.702, 0.7), rtol=1e-4, atol=1e-4
        )


def test_a_graph_holds_whatever_has_a_shape_before_it_has_values(device_type: str) -> None:
    """Among them what torch hands the device as an empty tensor to be filled."""
    inputs = torch.zeros(2, 6, device=device_type)
    cases = {
        "count": lambda a: a + torch.arange(6, device=a.device),
        "steps": lambda a: a + torch.arange(3, 0, -0.5, device=a.device),
        "identity": lambda a: a @ torch.eye(6, device=a.device),
        "exponentials": lambda a: a.logsumexp(-1),
        "resized": lambda a: torch.add(a, a, out=torch.empty(0, device=a.device)),
        "convolution": lambda a: torch.nn.functional.conv1d(a[:, None], torch.ones(2, 1, 3, device=a.device)),
        "sorted": lambda a: a.sort(-1, descending=True).values,
    }
    x = torch.randn(2, 6)
    for name, run in cases.items():
        inputs.zero_()
        graph = DeviceGraph()
        out = graph.capture(lambda: run(inputs))  # noqa: B023
        for values in (x, -x):
            inputs.copy_(values)
            graph.replay()
            torch.testing.assert_close(out.cpu(), run(values), msg=lambda text: f"{name}: {text}")  # noqa: B023


def test_a_graph_refuses_to_wait(device_type: str) -> None:
    x = torch.ones(3, device=device_type)
    with pytest.raises(GraphCaptureError, match="cannot wait"):
        DeviceGraph().capture(lambda: x.sum().item())
    assert x.sum().item() == 3  # the stream is usable again
