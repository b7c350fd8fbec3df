"""Keys and values that left the device's pool for host memory come back, and with them the same tokens."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.engine import EngineFailed, EngineProcess

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

NEW_TOKENS = 8
ASKED = reference.prompts([160] * 8, seed=11)
"""Together more than twice what the pool on the device holds."""


def _arguments(checkpoint: Path, **more: Any) -> dict[str, Any]:
    return {
        "model_path": str(checkpoint),
        "page_size": 16,
        "max_total_tokens": 512,
        "chunked_prefill_size": 256,
        "cuda_graph_bs_decode": [1, 2, 4],
        "enable_hierarchical_cache": True,
        "hicache_ratio": 6.0,
        **more,
    }


def _ask_all(engine: EngineProcess) -> tuple[list[list[int]], list[int]]:
    tokens, cached = [], []
    for prompt in ASKED:
        (reply,) = engine.call("generate", input_ids=[prompt], max_new_tokens=NEW_TOKENS)
        tokens.append(reply["output_ids"])
        cached.append(reply["cached_tokens"])
        time.sleep(0.2)  # the host writes to its memory beside the next request
    return tokens, cached


@pytest.mark.parametrize(
    ("architecture", "more"),
    [
        ("llama", {"hicache_write_policy": "write_through"}),
        pytest.param("llama", {"hicache_write_policy": "write_back", "page_size": 1}, marks=pytest.mark.long),
        pytest.param(
            "deepseek_v3",
            {"hicache_mem_layout": "page_first", "hicache_write_policy": "write_through"},
            marks=pytest.mark.long,
        ),
    ],
    ids=["write through", "write back, page size 1", "latent rows, pages first"],
)
def test_what_was_evicted_comes_back(models: Path, architecture: str, more: dict[str, Any]) -> None:
    checkpoint = make_checkpoint(models / architecture, architecture)
    expected = reference.greedy(checkpoint, ASKED, NEW_TOKENS)
    with EngineProcess("example_oot", _arguments(checkpoint, **more)) as engine:
        first = _ask_all(engine)
        again = _ask_all(engine)
        counts = engine.counters()
    page = more.get("page_size", 16)
    assert first == (expected, [0] * len(ASKED))
    assert again == (expected, [(len(ASKED[0]) - 1) // page * page] * len(ASKED))
    assert counts["host_memory.copies"] > 0
    assert counts["host.kv_pool.stores"] == 0


@pytest.mark.long
def test_a_storage_behind_the_host_memory(models: Path, tmp_path: Path) -> None:
    """Both caches are emptied; what the files hold is still hit."""
    checkpoint = make_checkpoint(models / "llama", "llama")
    expected = reference.greedy(checkpoint, ASKED, NEW_TOKENS)
    arguments = _arguments(
        checkpoint,
        hicache_write_policy="write_through",
        hicache_storage_backend="file",
        hicache_storage_prefetch_policy="wait_complete",
        hicache_storage_backend_extra_config='{"prefetch_threshold": 16}',
    )
    environment = {"SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR": str(tmp_path)}
    with EngineProcess("example_oot", arguments, environment=environment) as engine:
        assert _ask_all(engine)[0] == expected
        assert any(tmp_path.iterdir())
        assert engine.call("flush_cache")
        tokens, cached = _ask_all(engine)
    assert tokens == expected
    assert all(cached), cached


def test_a_layout_that_only_kernels_copy_is_refused_before_a_worker_starts(models: Path) -> None:
    checkpoint = make_checkpoint(models / "llama", "llama")
    with pytest.raises(EngineFailed) as caught:
        EngineProcess("example_oot", _arguments(checkpoint, hicache_mem_layout="page_head"))
    told = str(caught.value)
    assert "--hicache-mem-layout page_head does not work on the platform 'example_oot'" in told
    assert "choose one of layer_first, page_first, page_first_direct" in told
