"""One engine prefills, another decodes: keys and values go between them, and the tokens are those of one engine."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.engine import EngineFailed, EngineProcess
from sglang_platform.conformance.host.server import ServerProcess, free_port

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

NEW_TOKENS = 12
ASKED = reference.prompts((9, 40, 150, 300, 700))


@pytest.mark.parametrize("architecture", [pytest.param("llama", marks=pytest.mark.long), "deepseek_v3"])
def test_prefill_and_decode_apart(models: Path, architecture: str) -> None:
    checkpoint = make_checkpoint(models / architecture, architecture)
    expected = reference.greedy(checkpoint, ASKED, NEW_TOKENS)
    meeting = free_port()
    arguments = {
        "model_path": str(checkpoint),
        "max_total_tokens": 4096,
        "chunked_prefill_size": 256,
        "cuda_graph_bs_decode": [1, 2, 4],
        "disaggregation_bootstrap_port": meeting,
    }
    with (
        ServerProcess("example_oot", {**arguments, "disaggregation_mode": "prefill"}, wait=False) as prefill,
        ServerProcess("example_oot", {**arguments, "disaggregation_mode": "decode"}, wait=False) as decode,
    ):
        prefill.wait_until_healthy()
        decode.wait_until_healthy()
        # Room 0 is that of SGLang's warm-up. The second time the engine that prefills has the prompts in its cache.
        for room in (1, 100):
            answers = _ask(prefill, decode, meeting, room)
            assert answers == expected
        sent, received = prefill.counters(), decode.counters()
    assert sent["transfer.bytes_sent"] == received["transfer.bytes_received"] > 0
    assert received["example_oot.graph.replays"] > 0
    assert received["example_oot.attention.extends"] == 0, "the engine that decodes computed a prompt"


def _ask(prefill: ServerProcess, decode: ServerProcess, meeting: int, room: int) -> list[list[int]]:
    bodies: list[dict[str, Any]] = [
        {
            "input_ids": prompt,
            "sampling_params": {"temperature": 0, "max_new_tokens": NEW_TOKENS, "ignore_eos": True},
            "bootstrap_host": "127.0.0.1",
            "bootstrap_port": meeting,
            "bootstrap_room": room + number,
        }
        for number, prompt in enumerate(ASKED)
    ]
    with ThreadPoolExecutor(2 * len(bodies)) as pool:
        sent = [pool.submit(prefill.post, "/generate", body) for body in bodies]
        decoded = [pool.submit(decode.post, "/generate", body) for body in bodies]
        assert [one.result().status for one in sent] == [200] * len(bodies)
        return [one.result().json()["output_ids"] for one in decoded]


def test_a_library_that_does_not_know_the_device_is_refused(models: Path) -> None:
    checkpoint = make_checkpoint(models / "llama", "llama")
    arguments = {
        "model_path": str(checkpoint),
        "disaggregation_mode": "prefill",
        "disaggregation_transfer_backend": "nixl",
    }
    with pytest.raises(EngineFailed, match="does not know memory of the platform 'example_oot'"):
        EngineProcess("example_oot", arguments)
