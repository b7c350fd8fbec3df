"""Requests that clients should not send: each is answered, and the server lives."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from functools import partial

from sglang_platform.conformance.check import expect
from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.engine import RequestRefused
from sglang_platform.conformance.host.features.launch import PLAIN
from sglang_platform.conformance.host.features.record import feature
from sglang_platform.conformance.host.features.running import Running
from sglang_platform.conformance.host.fuzz.campaign import Campaign
from sglang_platform.conformance.host.fuzz.regressions import CASES, HostileRequest
from sglang_platform.conformance.host.fuzz.sending import send
from sglang_platform.conformance.host.fuzz.server import CONTEXT, arguments
from sglang_platform.conformance.host.fuzz.strategies import Request
from sglang_platform.conformance.host.server import ServerProcess

__all__: list[str] = []

_GROUP = "Requests"
_FIX = "refuse what no worker could serve before it leaves for one; core does for all that the model says"
_FUZZED = 300
_START_SECONDS = 400
_BAD = {
    "a token id beyond the vocabulary": {"input_ids": [[3, 10**9]]},
    "a negative token id": {"input_ids": [[3, -1]]},
    "a prompt of no tokens": {"input_ids": [[3], []]},
    "a bias on no token": {"input_ids": [[3]], "logit_bias": {"99999": 1.0}},
    "a temperature that is text": {"input_ids": [[3]], "temperature": "hot"},
    "a stop token that is kept back and does not exist": {
        "input_ids": [[3]], "min_new_tokens": 2, "stop_token_ids": [99999],
    },
}  # fmt: skip


@feature(
    group=_GROUP,
    title="malformed and hostile requests over HTTP",
    launch=None,
    fix=_FIX,
    seconds=900,
)
def hostile_requests(run: Running) -> None:
    """Every request that once ended a server, prompts up to the longest, and hundreds of requests drawn at random, are
    served or get a 4xx; the server lives, frees its slots, and answers as before."""
    checkpoint = make_checkpoint(run.models / "llama", "llama")
    options = {**arguments(checkpoint), "device": run.subject.parts.device_argument}
    with ServerProcess(run.subject.name, options, seconds=_START_SECONDS) as server:
        wrong = []
        for case in CASES:
            answer = send(server.port, Request(case.path, case.body, case.method))
            words = f"{case.name}: {case.method} {case.path} {str(case.body)[:200]}"
            if answer.status == 0 and server.ended():
                raise server.failed(f"ended by a request ({words})")
            if not 0 < answer.status < 500:
                wrong.append(f"{words} is answered with {answer.status}: {answer.body[:200]}")
            elif answer.status < 400 and case.refused and not _is_of_another_release(case):
                wrong.append(f"{words} is served, and cannot be: {answer.body[:200]}")
        expect(not wrong, "\n".join(wrong))
        _prompts_to_the_longest(server)
        _release_beside_a_request(server)
        found = Campaign(server, _FUZZED, 0, say=lambda line: None).run()
        if found.dead:
            raise server.failed(f"ended by one of the requests {found.last}")
        for (path, status, said), request in found.failures.items():
            expect(False, f"{path} answers {status} ({said}) to {str(request.body)[:300]}")
        expect(not found.held, f"once all requests are answered the server still holds {found.held}")
        expect(
            len(set(found.first_answers)) == 1,
            f"the same request gets other tokens afterwards: {found.first_answers}",
        )


def _prompts_to_the_longest(server: ServerProcess) -> None:
    """Prompts up to the longest that the context holds, one after the other and together; none begins as another does,
    so that all are computed."""
    lengths = [*(2**power + more for power in range(2, 9) for more in (-1, 0, 1)), CONTEXT - 8]
    for turn, workers in enumerate((1, len(lengths))):
        bodies = [
            {
                "input_ids": [number + len(lengths) * turn + 3 + place % 7 for place in range(length)],
                "sampling_params": {"max_new_tokens": 4},
            }
            for number, length in enumerate(lengths)
        ]
        with ThreadPoolExecutor(workers) as pool:
            for length, answer in zip(
                lengths, pool.map(partial(server.post, "/generate"), bodies), strict=True
            ):
                words = f"a prompt of {length} tokens in a context of {CONTEXT}, {workers} at once,"
                if answer.status == 0 and server.ended():
                    raise server.failed(f"ended by {words}")
                expect(answer.status == 200, f"{words} is answered with {answer.status}: {answer.body[:200]}")


def _release_beside_a_request(server: ServerProcess) -> None:
    """Memory is asked back while a request runs: the request ends first, and one that comes then waits until the memory
    is there again. What is in place is resumed once more."""
    long = {"input_ids": [3, 5, 7], "sampling_params": {"max_new_tokens": 200, "ignore_eos": True}}
    with ThreadPoolExecutor(1) as pool:
        pieces = server.stream("/generate", {**long, "stream": True})
        next(pieces)
        released = pool.submit(server.post, "/release_memory_occupation", {})
        *_, last = pieces
        statuses = [released.result().status]
        waits = pool.submit(server.post, "/generate", {"input_ids": [3, 5, 7]})
        time.sleep(1)
        expect(server.alive, "the server ends by a request that comes while its memory is given back")
        expect(not waits.done(), "a request is answered while the memory that it needs is given back")
        statuses += [server.post("/resume_memory_occupation", {}).status for _ in range(2)]
        statuses.append(waits.result().status)
    expect(server.alive, "the server ends where memory is asked back beside a request, or resumed twice")
    made = len(last["output_ids"])
    expect(
        statuses == [200] * 4,
        f"memory asked back beside a request and resumed twice, and a request between, are answered with {statuses}",
    )
    expect(made == 200, f"a request beside which memory is asked back gets {made} of 200 tokens")


def _is_of_another_release(case: HostileRequest) -> bool:
    """Whether a field of the request does not exist here: SGLang ignores it, so the request is an ordinary one."""
    from sglang.srt.managers.io_struct import GenerateReqInput

    native = case.path == "/generate" and isinstance(case.body, dict)
    return native and not set(case.body) <= {field.name for field in fields(GenerateReqInput)}


@feature(
    group=_GROUP,
    title="malformed requests to an Engine",
    launch=PLAIN,
    fix=_FIX,
)
def hostile_requests_to_an_engine(run: Running) -> None:
    """`Engine.generate` raises for a request that no worker could serve, and gives the right tokens to the next."""
    prompts = reference.prompts([20])
    for name, request in _BAD.items():
        asked = dict(request)
        try:
            run.ask(asked.pop("input_ids"), 4, **asked)  # type: ignore[arg-type]
        except RequestRefused:
            pass
        else:
            expect(False, f"{name} is served")
        expect(
            run.ask(prompts, 8) == run.expected(prompts, 8),
            f"after {name}, another request gets other tokens",
        )
