"""Models whose layers keep different things per token: the platform's pool is a leaf of the host's composite pools."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.distribution import path_with, write_distribution
from sglang_platform.conformance.host.engine import EngineProcess

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

Proof = Callable[[dict[str, int]], None]
PROGRAMS = Path(__file__).parent / "programs"
NEW_TOKENS = 16
LENGTHS = (1, 17, 90, 300)  # the window is 64 tokens long


def _serve(checkpoint: Path, arguments: dict[str, Any], **environment: str) -> tuple[dict[str, int], str]:
    """Each prompt alone, three and four together, with a bucket that pads, and again from the prefix cache."""
    asked = reference.prompts(LENGTHS)
    expected = reference.greedy(checkpoint, asked, NEW_TOKENS)
    arguments = {
        "model_path": str(checkpoint),
        "cuda_graph_bs_decode": [1, 4],
        "chunked_prefill_size": 128,
        **arguments,
    }
    with EngineProcess("example_oot", arguments, environment=environment) as engine:
        for group in ([0], [1], [2], [3], [0, 1, 2, 3], [1, 2, 3]):
            replies = engine.call("generate", input_ids=[asked[i] for i in group], max_new_tokens=NEW_TOKENS)
            assert [reply["output_ids"] for reply in replies] == [expected[i] for i in group], group
        counts, output = engine.counters(), engine.output()
    assert counts["example_oot.attention.decodes"] > 0
    return counts, output


def test_layers_of_a_sliding_window_and_of_full_attention(
    models: Path, served_by_the_platform: Proof
) -> None:
    checkpoint = make_checkpoint(models / "mellum", "mellum")
    counts, output = _serve(checkpoint, {"page_size": 16, "max_total_tokens": 4096})
    served_by_the_platform(counts)
    assert "SWAKVPool" in output
    assert counts["example_oot.paged_allocator.extends"] > 0


@pytest.mark.long
def test_windows_beside_a_device_that_lags_behind_the_scheduler(models: Path, tmp_path: Path) -> None:
    """Pages of one token, asked for again: the scheduler gives back the slot of a prompt's last token, which is cached,
    while the first step that reads it is still to run."""
    checkpoint = make_checkpoint(models / "mellum", "mellum")
    write_distribution(tmp_path, "slow-steps", {"sglang.srt.plugins": "slow_steps = slow_steps:load"})
    shutil.copy(PROGRAMS / "slow_steps.py", tmp_path)
    _serve(
        checkpoint,
        {"page_size": 1, "max_total_tokens": 4096, "disable_cuda_graph": True},
        PYTHONPATH=path_with(tmp_path),
    )


def test_layers_of_short_convolutions_and_of_attention(models: Path, served_by_the_platform: Proof) -> None:
    """The host's rules for such models: pages of one token; and it keeps states in bfloat16 unless told otherwise."""
    checkpoint = make_checkpoint(models / "lfm2", "lfm2")
    arguments = {"page_size": 1, "max_total_tokens": 4096, "max_mamba_cache_size": 64}
    counts, output = _serve(checkpoint, arguments, SGLANG_MAMBA_CONV_DTYPE="float32")
    served_by_the_platform(counts)
    assert "Mamba Cache is allocated" in output
    assert counts["example_oot.short_conv.calls"] > 0


@pytest.mark.long
@pytest.mark.parametrize("architecture", ["qwen3_next", "granitemoehybrid"])
def test_layers_of_states_by_kernels_in_plain_torch(
    architecture: str, models: Path, served_by_the_platform: Proof
) -> None:
    """Gated delta nets and Mamba-2, in decode graphs: the device has no kernels for them."""
    checkpoint = make_checkpoint(models / architecture, architecture)
    arguments = {"page_size": 1, "max_total_tokens": 4096, "max_mamba_cache_size": 64}
    counts, output = _serve(checkpoint, arguments, SGLANG_MAMBA_CONV_DTYPE="float32")
    served_by_the_platform(counts)
    assert "Mamba Cache is allocated" in output
    assert counts["example_oot.graph.replays"] > 0
