"""Prefill in compiled pieces on the example device.

SGLang 0.5.11 to 0.5.21 serve prefill so where the operator asks for it. From 0.5.22 the argument is refused
(`model_executor/cuda_graph_config.py:239` in 0.5.23), `resolve_prefill_backend` has no branch for it
(`model_executor/runner_backend/utils.py:144`) and attention is no cut any more (`layers/radix_attention.py`); what
compiles and cuts a model (`compilation/compile.py`, `compilation/backend.py`) is still there, and is called here.
`nox -s piecewise` runs this file in a release that still serves so.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.engine import EngineProcess
from sglang_platform.conformance.host.stacks import completed
from sglang_platform.core.sglang.versions import facts_for

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

NEW_TOKENS = 16
TOKEN_COUNTS = [8, 32, 64, 144, 320]
HOST = facts_for(version("sglang"))


@pytest.mark.skipif(
    HOST.compile_phase.endswith("in_pcg_torch_compile"),
    reason=f"the modules of SGLang {HOST.version}'s compiler have other names than those that the test drives",
)
@pytest.mark.parametrize("hooks", [pytest.param("plain", marks=pytest.mark.long), "hooked"])
def test_the_hosts_compiler_builds_and_calls_the_platforms_class(tmp_path: Path, hooks: str) -> None:
    """Also where the layers in the pieces are hooked: BEFORE, AFTER and AROUND on `torch.nn.Linear.forward`."""
    done = completed(
        [
            sys.executable,
            "-W",
            "ignore",
            str(Path(__file__).parent / "programs" / "compile_in_pieces.py"),
            hooks,
        ],
        env={**os.environ, "SGLANG_PLATFORM": "example_oot", "SGLANG_CACHE_DIR": str(tmp_path)},
        seconds=270,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("pieces")
    assert done.stdout.split()[-1] == ("3" if hooks == "hooked" else "0")


@pytest.mark.skipif(
    not HOST.asks_piecewise_backend,
    reason=f"SGLang {HOST.version} refuses tc_piecewise; 0.5.11 to 0.5.21 take it: nox -s piecewise",
)
def test_prompts_of_several_lengths_are_served_by_replays(models: Path, tmp_path: Path) -> None:
    checkpoint = make_checkpoint(models / "llama", "llama")
    asked = reference.prompts((1, 17, 32, 64, 130, 300))
    expected = reference.greedy(checkpoint, asked, NEW_TOKENS)
    asking = {"cuda_graph_backend_prefill": "tc_piecewise", "cuda_graph_bs_prefill": TOKEN_COUNTS}
    if HOST.pieces_argument == "disable_piecewise_cuda_graph":
        asking = {"enforce_piecewise_cuda_graph": True, "piecewise_cuda_graph_tokens": TOKEN_COUNTS}
    arguments = {"model_path": str(checkpoint), "page_size": 16, "max_running_requests": 8, **asking}
    with EngineProcess("example_oot", arguments, environment={"SGLANG_CACHE_DIR": str(tmp_path)}) as engine:
        before = engine.counters()
        alone = [
            engine.call("generate", input_ids=[prompt], max_new_tokens=NEW_TOKENS)[0] for prompt in asked
        ]
        together = engine.call("generate", input_ids=asked, max_new_tokens=NEW_TOKENS)
        counts = engine.counters()
    assert [reply["output_ids"] for reply in alone] == expected
    assert [reply["output_ids"] for reply in together] == expected
    # Four attention layers cut the model into five pieces.
    assert counts["piecewise.captures"] == before["piecewise.captures"] == 5 * len(TOKEN_COUNTS)
    assert before["piecewise.replays"] == counts["piecewise.without_graph"] == 0
    assert counts["piecewise.replays"] >= 5 * 3
    assert counts["piecewise.replays"] % 5 == 0
    assert counts["example_oot.graph.replays"] > 0
    assert counts["host.attention.calls"] == counts["host.kv_pool.stores"] == 0
