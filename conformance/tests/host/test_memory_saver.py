"""Device memory given back while the engine stands by, and taken again: new weights serve, with graphs."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.engine import EngineFailed, EngineProcess

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

NEW_TOKENS = 8
ASKED = reference.prompts((9, 40, 150))
CACHE_MIB = 131072 * 4 * 2 * 2 * 32 * 4 >> 20
"""Slots, layers, keys and values, heads, dimensions, bytes."""


def test_memory_goes_back_and_new_weights_serve(models: Path) -> None:
    checkpoints = [
        make_checkpoint(models / name, "llama", seed=seed) for name, seed in (("llama", 0), ("llama-1", 1))
    ]
    expected = [reference.greedy(checkpoint, ASKED, NEW_TOKENS) for checkpoint in checkpoints]
    assert expected[0] != expected[1]
    arguments = {
        "model_path": str(checkpoints[0]),
        "page_size": 16,
        "max_total_tokens": 131072,
        "cuda_graph_bs_decode": [1, 2, 4],
        "enable_memory_saver": True,
    }
    with EngineProcess("example_oot", arguments) as engine:
        assert _answers(engine) == expected[0]
        before = _resident_mib(engine)
        engine.call("release_memory")
        assert before - _resident_mib(engine) > 0.8 * CACHE_MIB
        engine.call("resume_memory")
        engine.call("update_weights", model_path=str(checkpoints[1]), recapture=False)
        assert _answers(engine) == expected[1]
        replays = engine.counters()["example_oot.graph.replays"]
        engine.call("release_memory", tags=["kv_cache"])
        engine.call("resume_memory", tags=["kv_cache"])
        assert _answers(engine) == expected[1]
        engine.call("release_memory", tags=["weights"])
        engine.call("resume_memory", tags=["weights"])
        engine.call("update_weights", model_path=str(checkpoints[0]), recapture=False)
        assert _answers(engine) == expected[0]
        counts = engine.counters()
    assert counts["example_oot.graph.replays"] > replays
    assert counts["host.graph.replays"] == 0


def test_together_with_the_hierarchical_cache_it_is_refused(models: Path) -> None:
    checkpoint = make_checkpoint(models / "llama", "llama")
    arguments = {
        "model_path": str(checkpoint),
        "enable_memory_saver": True,
        "enable_hierarchical_cache": True,
    }
    with pytest.raises(EngineFailed, match="leave out one of the two"):
        EngineProcess("example_oot", arguments)


def _answers(engine: EngineProcess) -> list[list[int]]:
    replies = engine.call("generate", input_ids=ASKED, max_new_tokens=NEW_TOKENS)
    return [reply["output_ids"] for reply in replies]


def _resident_mib(engine: EngineProcess) -> int:
    children = psutil.Process(engine.pid).children(recursive=True)
    return sum(child.memory_info().rss for child in children) >> 20
