"""Two processes on the example device, each with half of every layer: the tokens of one process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.engine import EngineProcess

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

NEW_TOKENS = 16


def test_two_ranks_give_the_tokens_of_one(
    models: Path, served_by_the_platform: Callable[[dict[str, int]], None]
) -> None:
    checkpoint = make_checkpoint(models / "llama", "llama")
    asked = reference.prompts((1, 17, 64, 300))
    expected = reference.greedy(checkpoint, asked, NEW_TOKENS)
    arguments = {
        "model_path": str(checkpoint),
        "page_size": 16,
        "tp_size": 2,
        "cuda_graph_bs_decode": [1, 2, 4],
    }
    with EngineProcess("example_oot", arguments, environment={"OMP_NUM_THREADS": "1"}) as engine:
        alone = [
            engine.call("generate", input_ids=[prompt], max_new_tokens=NEW_TOKENS)[0] for prompt in asked
        ]
        together = engine.call("generate", input_ids=asked, max_new_tokens=NEW_TOKENS)
        counts = engine.counters()
    assert [reply["output_ids"] for reply in alone] == expected
    assert [reply["output_ids"] for reply in together] == expected
    assert counts["host.process.scheduler"] == 2
    served_by_the_platform(counts)
