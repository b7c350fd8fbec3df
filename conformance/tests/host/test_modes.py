"""What an operator may switch on: mixed batches, 8-bit caches and weights, new weights in a running engine."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.engine import EngineProcess

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

Proof = Callable[[dict[str, int]], None]
NEW_TOKENS = 16
ASKED = reference.prompts((9, 40, 150, 300))


def _engine(checkpoint: Path, **arguments: Any) -> EngineProcess:
    common = {
        "model_path": str(checkpoint),
        "page_size": 16,
        "max_total_tokens": 4096,
        "cuda_graph_bs_decode": [1, 4],
    }
    return EngineProcess("example_oot", {**common, **arguments})


def _answers(engine: EngineProcess) -> list[list[int]]:
    replies = engine.call("generate", input_ids=ASKED, max_new_tokens=NEW_TOKENS)
    return [reply["output_ids"] for reply in replies]


@pytest.mark.long
def test_decoding_and_prefill_in_one_batch(models: Path, served_by_the_platform: Proof) -> None:
    checkpoint = make_checkpoint(models / "llama", "llama")
    with _engine(checkpoint, enable_mixed_chunk=True, chunked_prefill_size=64) as engine:
        assert _answers(engine) == reference.greedy(checkpoint, ASKED, NEW_TOKENS)
        served_by_the_platform(engine.counters())
        assert re.search(r"Prefill batch.*#running-req: [1-9]", engine.output()), "no batch was mixed"


def test_a_cache_of_8_bit_floats(models: Path, served_by_the_platform: Proof) -> None:
    """Keys and values keep 4 bits of their mantissa; what is chosen still lies near the top."""
    checkpoint = make_checkpoint(models / "llama", "llama")
    with _engine(checkpoint, kv_cache_dtype="fp8_e4m3") as engine:
        answers = _answers(engine)
        served_by_the_platform(engine.counters())
        assert "torch.float8_e4m3fn" in engine.output()
    gaps = [
        gap
        for prompt, out in zip(ASKED, answers, strict=True)
        for gap in reference.gaps(checkpoint, prompt, out)
    ]
    assert statistics.mean(gaps) < 0.1, gaps
    assert max(gaps) < 1.0, gaps


def test_new_weights_in_a_running_engine(models: Path, served_by_the_platform: Proof) -> None:
    """The graphs hold the addresses of the weights: with and without capturing them again the new ones serve."""
    checkpoints = [
        make_checkpoint(models / name, "llama", seed=seed) for name, seed in (("llama", 0), ("llama-1", 1))
    ]
    expected = [reference.greedy(checkpoint, ASKED, NEW_TOKENS) for checkpoint in checkpoints]
    assert expected[0] != expected[1]
    with _engine(checkpoints[0]) as engine:
        assert _answers(engine) == expected[0]
        captures = engine.counters()["example_oot.graph.captures"]
        engine.call("update_weights", model_path=str(checkpoints[1]), recapture=False)
        assert _answers(engine) == expected[1]
        assert engine.counters()["example_oot.graph.captures"] == captures
        engine.call("update_weights", model_path=str(checkpoints[0]), recapture=True)
        assert _answers(engine) == expected[0]
        counts = engine.counters()
        assert counts["example_oot.graph.captures"] == 2 * captures
        served_by_the_platform(counts)


@pytest.mark.long
def test_linear_layers_with_8_bit_weights(models: Path, served_by_the_platform: Proof) -> None:
    checkpoint = make_checkpoint(models / "llama", "llama")
    quantised, same_in_float = _int8(checkpoint, models / "llama-int8")
    with _engine(quantised, quantization="w8a8_int8") as engine:
        assert _answers(engine) == reference.greedy(same_in_float, ASKED, NEW_TOKENS)
        counts = engine.counters()
    assert counts["example_oot.quantized_linear.calls"] > 0
    served_by_the_platform(counts)


def _int8(checkpoint: Path, folder: Path) -> tuple[Path, Path]:
    """The checkpoint with its layers' weights as int8 and a scale per row, and the same numbers as float32."""
    import shutil

    import torch
    from safetensors.torch import load_file, save_file

    whole, rounded = {}, {}
    for name, weight in load_file(checkpoint / "model.safetensors").items():
        if not name.endswith("_proj.weight"):
            whole[name] = rounded[name] = weight
            continue
        scale = weight.abs().amax(1, keepdim=True) / 127
        whole[name] = (weight / scale).round().to(torch.int8)
        whole[name.removesuffix("weight") + "weight_scale"] = scale
        rounded[name] = whole[name].float() * scale
    folders = folder / "int8", folder / "float32"
    for target, weights in zip(folders, (whole, rounded), strict=True):
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(
            checkpoint, target, ignore=shutil.ignore_patterns("*.safetensors", "reference-*", "complete.json")
        )
        save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folders[0] / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "w8a8_int8"}
    (folders[0] / "config.json").write_text(json.dumps(config))
    return folders
