"""What the adapter cannot carry to a device is refused while the arguments are settled, before a worker starts."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from sglang_platform.conformance.host.stacks import completed

pytestmark = [pytest.mark.host, pytest.mark.timeout(300)]

PROGRAM = Path(__file__).parent / "programs" / "refuse_arguments.py"
REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"enable_deterministic_inference": True}, "--enable-deterministic-inference", "batch_invariant_ops.py"),
    ({"enable_two_batch_overlap": True}, "--enable-two-batch-overlap", "operations_strategy.py"),
    ({"enable_single_batch_overlap": True}, "--enable-single-batch-overlap", "single_batch_overlap.py"),
    (
        {"disaggregation_mode": "prefill", "disaggregation_transfer_backend": "nixl"},
        "--disaggregation-transfer-backend nixl",
        "disaggregation/nixl/conn.py",
    ),
    (
        {"enable_hierarchical_cache": True, "hicache_mem_layout": "page_head"},
        "--hicache-mem-layout page_head",
        "choose one of layer_first",
    ),
    (
        {"enable_hierarchical_cache": True, "enable_memory_saver": True},
        "--enable-memory-saver and --enable-hierarchical-cache",
        "leave out one of the two",
    ),
]
SERVED: list[dict[str, Any]] = [
    {},
    {"enable_hierarchical_cache": True, "hicache_mem_layout": "page_first"},
    {"enable_memory_saver": True},
    {"disaggregation_mode": "decode"},
]


@pytest.mark.long
def test_each_is_refused_in_words_and_the_others_are_not(tmp_path: Path) -> None:
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64}
    config |= {"num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "vocab_size": 64}
    config |= {"intermediate_size": 64, "max_position_embeddings": 256}
    (tmp_path / "config.json").write_text(json.dumps(config))
    asked = [{"model_path": str(tmp_path), **one} for one in [*(one for one, *_ in REFUSED), *SERVED]]
    run = completed(
        [sys.executable, PROGRAM, json.dumps(asked)],
        env={**os.environ, "SGLANG_PLATFORM": "example_oot"},
        seconds=270,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    answers = json.loads(run.stdout.strip().splitlines()[-1])
    for (_, what, place), answer in zip(REFUSED, answers, strict=False):
        assert answer is not None, what
        assert answer.startswith(what)
        assert place in answer
        assert "fix:" in answer
    assert answers[len(REFUSED) :] == [None] * len(SERVED)
