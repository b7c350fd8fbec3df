"""LoRA adapters, served beside the model that they adapt."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sglang_platform.conformance.check import NotApplicable, expect
from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.adapters import make_adapter, merge_adapter
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.features.record import EngineLaunch, feature
from sglang_platform.conformance.host.features.running import Running

__all__: list[str] = []

_ADAPTERS = {"small": {"rank": 4, "alpha": 8, "seed": 1}, "large": {"rank": 16, "alpha": 16, "seed": 2}}
_FIX = "leave get_default_lora_backend() as it is: SGLang's torch_native backend then serves, on any torch device"
_NEW_TOKENS = 16


def _prepare(models: Path) -> Mapping[str, Any]:
    checkpoint = make_checkpoint(models / "llama", "llama")
    paths = {
        name: make_adapter(models / f"llama-lora-{name}", checkpoint, **how)
        for name, how in _ADAPTERS.items()
    }
    return {
        "model_path": str(checkpoint),
        "lora_paths": [f"{name}={path}" for name, path in paths.items()],
        "max_loras_per_batch": 3,
        "max_lora_rank": 16,
    }


def _launch(name: str, **arguments: Any) -> EngineLaunch:
    return EngineLaunch(name, {"enable_lora": True, **arguments}, prepare=_prepare)


def _merged(run: Running, adapter: str | None) -> Path:
    if adapter is None:
        return run.checkpoint
    return merge_adapter(
        run.models / f"llama-merged-{adapter}", run.checkpoint, run.models / f"llama-lora-{adapter}"
    )


_BATCHES: list[list[str | None]] = [
    ["small"], ["large"], [None], ["small", "large", None, "large", "small", None]
]  # fmt: skip
"""The adapter of each request. A decode graph of six does not exist: it is one of eight, two rows of it padding."""


def _adapters_serve(run: Running) -> None:
    prompts = reference.prompts([9, 40, 150, 33, 64, 21], seed=8)
    for adapters in _BATCHES:
        asked = prompts[: len(adapters)]
        replies = run.engine.call(
            "generate_adapted", input_ids=asked, lora_path=adapters, max_new_tokens=_NEW_TOKENS
        )
        for prompt, adapter, got in zip(asked, adapters, replies, strict=True):
            (wanted,) = reference.greedy(_merged(run, adapter), [prompt], _NEW_TOKENS)
            expect(
                got == wanted,
                f"a prompt of {len(prompt)} tokens with adapter {adapter}, in a batch with {adapters}: the tokens are "
                f"{got}, and the model with the adapter merged in gives {wanted}",
            )


@feature(group="LoRA", title="two adapters, default backend", launch=_launch("lora"), fix=_FIX)
def lora_two_adapters(run: Running) -> None:
    """Requests with either of two adapters of different rank, and with none, alone and in one batch, give the tokens
    of the model with the adapter merged in."""
    _adapters_serve(run)


@feature(
    group="LoRA",
    title="two adapters, decode graphs",
    launch=_launch("lora"),
    since="0.5.20",
    fix="derive the graph runner from core's, which makes adapters an input of the graphs: its capture must record "
    "what SGLang's LoRA backend computes",
)
def lora_graphs(run: Running) -> None:
    """As with the default backend, and every decode step of these batches replays a graph."""
    run.ask(reference.prompts([9]), _NEW_TOKENS)
    before = run.engine.counters()["graph.replays"]
    if not before or run.subject.parts.device_argument == "cpu":
        raise NotApplicable(
            "the platform has no decode graphs of core's GraphRunner, or none that LoRA batches can have"
        )
    _adapters_serve(run)
    replays = run.engine.counters()["graph.replays"] - before
    steps = len(_BATCHES) * (_NEW_TOKENS - 1)
    expect(replays >= steps, f"{steps} decode steps with adapters took {replays} replays of a graph")
