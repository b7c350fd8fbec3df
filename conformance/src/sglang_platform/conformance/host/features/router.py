"""SGLang's router before several engines. It is a distribution of its own (`sglang-router`), and knows no device."""

from __future__ import annotations

import importlib.util
import os
import sys
import time

from sglang_platform.conformance.check import NotRun, expect
from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.features.record import feature
from sglang_platform.conformance.host.features.running import Running
from sglang_platform.conformance.host.server import ServerAnswer, ServerProcess, free_port

__all__: list[str] = []

PYTHON_VARIABLE = "SGLANG_PLATFORM_ROUTER_PYTHON"
"""Names the Python of the environment that has the router, where it is not this one."""

_MODULE = "sglang_router.launch_router"
_LENGTHS = (9, 40, 150, 300)
_NEW_TOKENS = 12
_ROUNDS = 3
"""Each prompt so many times: the router passes over an engine that it has not found healthy yet."""

_START_SECONDS = 60


@feature(
    group="Several engines",
    title="sglang-router before two engines",
    launch=None,
    fix="look at what the engines answer on /health, /get_server_info and /get_model_info, which the router asks",
    seconds=600,
)
def router_before_two_engines(run: Running) -> None:
    """Requests that go through the router are answered by both engines, with the same tokens."""
    python = _python_of_the_router()
    checkpoint = make_checkpoint(run.models / "llama", "llama")
    prompts = reference.prompts(_LENGTHS, seed=12)
    expected = reference.greedy(checkpoint, prompts, _NEW_TOKENS)
    arguments = {"model_path": str(checkpoint), "device": run.subject.parts.device_argument}
    name = run.subject.name
    with (
        ServerProcess(name, {**arguments, "weight_version": "of the first"}, wait=False) as first,
        ServerProcess(name, {**arguments, "weight_version": "of the second"}, wait=False) as second,
    ):
        first.wait_until_healthy()
        second.wait_until_healthy()
        in_turn = {
            "worker_urls": [first.url, second.url],
            "policy": "round_robin",
            "prometheus_port": free_port(),
        }
        with ServerProcess(None, in_turn, module=_MODULE, python=python, wait=False, defaults={}) as router:
            _until_it_serves(router, prompts[0])
            engines: set[str] = set()
            for prompt, wanted in [*zip(prompts, expected, strict=True)] * _ROUNDS:
                answer = _ask(router, prompt)
                expect(answer.status == 200, f"the router answers {answer.status}: {answer.body[:300]}")
                got = answer.json()["output_ids"]
                expect(
                    got == wanted,
                    f"a prompt of {len(prompt)} tokens gives {got}, and transformers gives {wanted}",
                )
                engines.add(answer.json()["meta_info"]["weight_version"])
            expect(
                len(engines) == 2,
                f"{_ROUNDS * len(prompts)} requests were all answered by the engine with the weights {engines}",
            )


def _python_of_the_router() -> str:
    named = os.environ.get(PYTHON_VARIABLE)
    if named:
        return named
    if importlib.util.find_spec("sglang_router") is not None:
        return sys.executable
    raise NotRun(
        f"sglang-router is not installed here; it may be in any environment, whose Python {PYTHON_VARIABLE} names",
        cause="extra",
    )


def _until_it_serves(router: ServerProcess, prompt: list[int]) -> None:
    """It answers 503 until it has found its engines."""
    until = time.monotonic() + _START_SECONDS
    while (answer := _ask(router, prompt)).status != 200:
        if not router.alive or time.monotonic() > until:
            raise router.failed(f"router does not serve ({answer.status}: {answer.body[:200]})")
        time.sleep(0.5)


def _ask(router: ServerProcess, prompt: list[int]) -> ServerAnswer:
    sampling = {"temperature": 0, "max_new_tokens": _NEW_TOKENS, "ignore_eos": True}
    return router.post("/generate", {"input_ids": prompt, "sampling_params": sampling})
