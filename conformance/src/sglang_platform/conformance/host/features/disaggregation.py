"""Prefill and decode in engines of their own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sglang_platform.conformance.check import expect
from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.features.record import feature
from sglang_platform.conformance.host.features.running import Running
from sglang_platform.conformance.host.server import ServerProcess, free_port

__all__: list[str] = []

_LENGTHS = (9, 40, 150, 300, 700)
_NEW_TOKENS = 12
_FIX = (
    "look at get_transfer_engine_cls(), and at the pool's get_contiguous_buf_infos(): its addresses must be those of "
    "whole contiguous buffers"
)


@feature(group="Several engines", title="prefill and decode apart", launch=None, fix=_FIX)
def prefill_and_decode_apart(run: Running) -> None:
    """One engine computes the prompts, another the tokens after them, and the tokens are those of one engine."""
    _apart(run, "llama")


@feature(group="Several engines", title="prefill and decode apart, latent rows", launch=None, fix=_FIX)
def prefill_and_decode_apart_latent(run: Running) -> None:
    """The same for a model with latent attention."""
    _apart(run, "deepseek_v3")


def _apart(run: Running, architecture: str) -> None:
    checkpoint = make_checkpoint(run.models / architecture, architecture)
    prompts = reference.prompts(_LENGTHS)
    expected = reference.greedy(checkpoint, prompts, _NEW_TOKENS)
    meeting = free_port()
    arguments = {
        "model_path": str(checkpoint),
        "max_total_tokens": 4096,
        "chunked_prefill_size": 256,
        "device": run.subject.parts.device_argument,
        "disaggregation_bootstrap_port": meeting,
    }
    name = run.subject.name
    with (
        ServerProcess(name, {**arguments, "disaggregation_mode": "prefill"}, wait=False) as prefill,
        ServerProcess(name, {**arguments, "disaggregation_mode": "decode"}, wait=False) as decode,
    ):
        prefill.wait_until_healthy()
        decode.wait_until_healthy()
        # Room 0 is that of SGLang's warm-up. The second time the engine that prefills has the prompts in its cache.
        for room in (1, 100):
            answers = _ask(prefill, decode, meeting, room, prompts)
            for prompt, got, wanted in zip(prompts, answers, expected, strict=True):
                expect(
                    got == wanted,
                    f"a prompt of {len(prompt)} tokens, prefilled elsewhere, gives {got}, and transformers {wanted}",
                )


def _ask(
    prefill: ServerProcess, decode: ServerProcess, meeting: int, room: int, prompts: list[list[int]]
) -> list[Any]:
    bodies = [
        {
            "input_ids": prompt,
            "sampling_params": {"temperature": 0, "max_new_tokens": _NEW_TOKENS, "ignore_eos": True},
            "bootstrap_host": "127.0.0.1",
            "bootstrap_port": meeting,
            "bootstrap_room": room + number,
        }
        for number, prompt in enumerate(prompts)
    ]
    with ThreadPoolExecutor(2 * len(bodies)) as pool:
        sent = [pool.submit(prefill.post, "/generate", body) for body in bodies]
        decoded = [pool.submit(decode.post, "/generate", body) for body in bodies]
        answers = [one.result() for one in (*sent, *decoded)]
    if any(answer.status == 0 for answer in answers):
        for which, server in (("prefills", prefill), ("decodes", decode)):
            if server.ended():
                raise server.failed(f"ended where it {which} for another engine")
    refused = [answer for answer in answers if answer.status != 200]
    expect(not refused, f"{len(refused)} of {len(answers)} requests were refused: {refused[:1]}")
    return [answer.json()["output_ids"] for answer in answers[len(sent) :]]
