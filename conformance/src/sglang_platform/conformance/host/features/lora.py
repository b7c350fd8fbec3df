"""LoRA adapters, served beside the model that they adapt."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sglang_platform.conformance.check import expect
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


def _adapters_serve(run: Running) -> None:
    prompts = reference.prompts([9, 40, 150, 33, 64, 21], seed=8)
    batches = [["small"], ["large"], [None], ["small", "large", None, "large", "small", None]]
    for adapters in batches:
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
