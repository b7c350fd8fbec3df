"""The ops that the example registers are those that SGLang's models call, and the tokens are those of transformers."""

from __future__ import annotations

from pathlib import Path

import pytest

from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.engine import EngineProcess

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

NEW_TOKENS = 16
LENGTHS = (1, 17, 90)

_STATES = {"page_size": 1, "max_total_tokens": 4096, "max_mamba_cache_size": 64}

SERVED = {
    "gemma2": {"GemmaRMSNorm", "GeluAndMul", "RotaryEmbedding"},
    "granitemoehybrid": {"RMSNorm", "Mixer2RMSNormGated", "TopK", "UnquantizedFusedMoEMethod"},
    "llama3": {
        "RMSNorm",
        "SiluAndMul",
        "RotaryEmbedding",
    },  # turned by the host's class Llama3RotaryEmbedding
    "qwen3_moe": {"RMSNorm", "RotaryEmbedding", "TopK", "UnquantizedFusedMoEMethod"},
}


@pytest.mark.parametrize(
    "architecture",
    [pytest.param(one, marks=() if at < 1 else pytest.mark.long) for at, one in enumerate(SERVED)],
)
def test_the_registered_ops_are_those_that_run(architecture: str, models: Path) -> None:
    checkpoint = make_checkpoint(models / architecture, architecture)
    asked = reference.prompts(LENGTHS)
    expected = reference.greedy(checkpoint, asked, NEW_TOKENS)
    more = _STATES if architecture == "granitemoehybrid" else {"page_size": 16}
    arguments = {"model_path": str(checkpoint), "disable_cuda_graph": True, **more}
    environment = {"SGLANG_MAMBA_CONV_DTYPE": "float32"}
    with EngineProcess("example_oot", arguments, environment=environment) as engine:
        replies = engine.call("generate", input_ids=asked, max_new_tokens=NEW_TOKENS)
        counts = engine.counters()
    assert [reply["output_ids"] for reply in replies] == expected
    prefix = "example_oot.fused_ops."
    ran = {name.removeprefix(prefix): n for name, n in counts.items() if name.startswith(prefix) and n}
    print(f"{architecture}: {ran}")
    assert ran.keys() - {"calls"} >= SERVED[architecture]
    assert sum(ran.values()) == 2 * ran["calls"]  # each call is counted once by its op
