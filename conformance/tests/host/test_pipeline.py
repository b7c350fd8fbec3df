"""A model split by layers over several processes on the example device: the tokens of one process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.engine import EngineProcess

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

NEW_TOKENS = 16
ASKED = reference.prompts((1, 17, 64, 300))


@pytest.mark.parametrize(
    ("ranks", "graphs"),
    [
        pytest.param({"pp_size": 2}, False, marks=pytest.mark.long),
        pytest.param({"pp_size": 2}, True, marks=pytest.mark.long),
        ({"pp_size": 2, "tp_size": 2}, True),
    ],
    ids=["eager", "graphs", "with tensor parallel"],
)
def test_stages_give_the_tokens_of_one_process(
    models: Path,
    served_by_the_platform: Callable[[dict[str, int]], None],
    ranks: dict[str, Any],
    graphs: bool,
) -> None:
    checkpoint = make_checkpoint(models / "llama", "llama")
    expected = reference.greedy(checkpoint, ASKED, NEW_TOKENS)
    arguments = {
        "model_path": str(checkpoint),
        "page_size": 16,
        "cuda_graph_bs_decode": [1, 2, 4],
        "disable_cuda_graph": not graphs,
        **ranks,
    }
    environment = {"OMP_NUM_THREADS": "1", "SGLANG_EXAMPLE_OOT_DEVICES": "4"}
    with EngineProcess("example_oot", arguments, environment=environment) as engine:
        alone = [
            engine.call("generate", input_ids=[prompt], max_new_tokens=NEW_TOKENS)[0] for prompt in ASKED
        ]
        together = engine.call("generate", input_ids=ASKED, max_new_tokens=NEW_TOKENS)
        counts = engine.counters()
    assert [reply["output_ids"] for reply in alone] == expected
    assert [reply["output_ids"] for reply in together] == expected
    assert counts["host.process.scheduler"] == ranks["pp_size"] * ranks.get("tp_size", 1)
    assert counts["graph.without_graph"] == 0
    if graphs:
        served_by_the_platform(counts)
