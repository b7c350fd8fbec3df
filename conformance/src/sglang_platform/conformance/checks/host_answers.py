"""Level 7: SGLang serves on the platform, and its answers are right. One engine, in a process of its own, gives all."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from sglang_platform.conformance.check import CheckFailed, NotApplicable, check, expect
from sglang_platform.conformance.host import asked, processes, reference
from sglang_platform.conformance.host.asked import CONCURRENT, LENGTHS, LONG, NEW_TOKENS, SHARED_PREFIX
from sglang_platform.conformance.host.engine import EngineFailed
from sglang_platform.conformance.host.session import CHUNK, session
from sglang_platform.conformance.host.witness import NAME as WITNESS
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import engine
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_START_SECONDS = 400
_ASK_SECONDS = 200


_check = partial(check, level=Level.HOST, requires=[engine()], hosts=("sglang",), seconds=_ASK_SECONDS)


@_check(
    seconds=_START_SECONDS,
    fix="read the lines that SGLang printed last, and what `sglang-platform doctor` finds",
)
def engine_starts(subject: Subject) -> None:
    """SGLang starts on the platform and loads a model."""
    try:
        session(subject).start()
    except EngineFailed as error:
        raise CheckFailed(str(error)) from None


@_check(
    fix="let activate() depend on the machine and the environment alone: each process of SGLang asks it anew"
)
def every_process_has_the_platform(subject: Subject) -> None:
    """The main, scheduler and detokenizer processes all end on the platform."""
    found = session(subject)
    found.running().call("generate", input_ids=[[9, 10, 11]], max_new_tokens=2)
    reports = processes.read(found.report_dir)
    expect(len(reports) >= 2, f"{len(reports)} processes of SGLang reported, and there are three")
    wanted = f"{type(subject.platform).__module__}.{type(subject.platform).__qualname__}"
    for report in reports:
        got = report["platform"]["class"]
        expect(got == wanted, f"process {report['pid']} of SGLang is on {got}, not on {wanted}")


@_check(fix="correct the hook, or register it with required=False if this SGLang may lack its target")
def hooks_take_effect(subject: Subject) -> None:
    """No hook of the plugin failed in any process, and each was applied in one of them."""
    reports = processes.read(session(subject).report_dir)
    applied: set[str] = set()
    wanted: set[str] = set()
    for report in reports:
        for hook in report["hooks"]:
            if hook["plugin"] in (None, WITNESS, "sglang_platform_core"):
                continue
            wanted.add(hook["target"])
            expect(
                hook["state"] != "failed",
                f"in process {report['pid']} the hook on {hook['target']} failed: {hook}",
            )
            applied |= {hook["target"]} if hook["state"] == "applied" else set()
        for hook in report["hooks_on_the_hosts_registry"]:
            wanted.add(hook["target"])
            applied |= {hook["target"]} if hook["applied"] else set()
    if not wanted:
        raise NotApplicable("no plugin registers a hook")
    lost = sorted(wanted - applied)
    expect(not lost, f"no process of SGLang applied the hook on {', '.join(lost)}")


@dataclass(frozen=True)
class Prompt:
    tokens: int
    new_tokens: int = NEW_TOKENS


def _prompts(subject: Subject, rng: random.Random) -> Iterable[Prompt]:
    return map(Prompt, LENGTHS)


@_check(
    cases=_prompts,
    fix="compare the parts one by one with levels 3 to 5: they name the part; a wrong first token points at prefill, "
    "a later one at decode",
)
def tokens_equal_transformers(subject: Subject, case: Prompt) -> None:
    """Greedy tokens are those of Hugging Face transformers, for prompts of 1 to 300 tokens."""
    found = session(subject)
    prompt = asked.single(case.tokens)
    (reply,) = found.running().call("generate", input_ids=[prompt], max_new_tokens=case.new_tokens)
    wrong = found.difference(prompt, reply["output_ids"])
    expect(wrong is None, f"a prompt of {case.tokens} tokens: {wrong}")


@_check(
    fix="look at extend with a cached prefix: positions, causal mask and page table begin at the prefix, not at 0"
)
def long_prompts_are_chunked(subject: Subject) -> None:
    """A prompt of 1500 tokens is computed in chunks, and gives the right tokens."""
    found = session(subject)
    running = found.running()
    prompt = asked.long()
    before = running.counters().get("witness.attention.forward_extend", 0)
    (reply,) = running.call("generate", input_ids=[prompt], max_new_tokens=NEW_TOKENS)
    extends = running.counters().get("witness.attention.forward_extend", 0) - before
    wrong = found.difference(prompt, reply["output_ids"])
    expect(wrong is None, f"a prompt of {LONG} tokens in chunks of {CHUNK}: {wrong}")
    chunks = extends // found.layers
    if extends:  # a backend that captures prefill does not pass through here
        expect(chunks >= LONG // CHUNK, f"a prompt of {LONG} tokens took {chunks} chunks of {CHUNK} tokens")


@_check(
    fix="look at batches of requests of different lengths: offsets between requests, and slots shared by two of them"
)
def concurrent_requests_agree(subject: Subject) -> None:
    """Requests of different lengths that run together give each the tokens it gets alone."""
    found = session(subject)
    prompts = asked.together()
    replies = found.running().call("generate", input_ids=prompts, max_new_tokens=NEW_TOKENS)
    for index, (prompt, reply) in enumerate(zip(prompts, replies, strict=True)):
        wrong = found.difference(prompt, reply["output_ids"])
        expect(
            wrong is None,
            f"request {index} of {CONCURRENT}, of {len(prompt)} tokens: {wrong}",
            case={"request": index},
        )


@_check(
    fix="keep what is stored in slots that are not freed: the radix cache hands them to the next request as they are"
)
def prefix_cache_is_hit(subject: Subject) -> None:
    """A request that shares a prefix with an earlier one takes it from the cache, and gives the right tokens."""
    found = session(subject)
    running = found.running()
    first, second = asked.together()[:2]
    running.call("generate", input_ids=[first], max_new_tokens=1)
    (reply,) = running.call("generate", input_ids=[second], max_new_tokens=NEW_TOKENS)
    whole = SHARED_PREFIX // found.page_size * found.page_size
    expect(
        reply["cached_tokens"] >= whole,
        f"{reply['cached_tokens']} tokens came from the cache, and {whole} are shared with an earlier request",
    )
    wrong = found.difference(second, reply["output_ids"])
    expect(wrong is None, f"with {reply['cached_tokens']} tokens from the cache: {wrong}")


@_check(fix="count every page that is freed once, and report it in available_size()")
def aborted_requests_return_their_slots(subject: Subject) -> None:
    """After aborts every slot is available or evictable, and after a flush every slot is available."""
    running = session(subject).running()
    before = running.gauges()
    start = before["available"] + before["evictable"]
    # How many tokens a request has when it ends is chance, and whole pages are the easy case.
    for prompt in reference.prompts([40, 41, 43], seed=2):
        ended = running.call("abort", input_ids=prompt, after_tokens=5)
        reason = ended["finish_reason"]
        expect(reason["type"] == "abort", f"the aborted request ended with {reason}")
    after = _settled(running, lambda gauges: gauges["available"] + gauges["evictable"] == start)
    kept = after["available"] + after["evictable"]
    expect(
        kept == start, f"{kept} slots are available or evictable after three aborts, and {start} were before"
    )
    running.call("flush_cache")
    flushed = _settled(running, lambda gauges: gauges["available"] == gauges["size"])
    expect(
        flushed["available"] == flushed["size"],
        f"after a flush {flushed['available']} of {flushed['size']} slots are available",
    )


def _settled(running: Any, done: Callable[[dict[str, int]], bool]) -> dict[str, int]:
    # The reply to an abort comes before the scheduler has released the request.
    gauges: dict[str, int] = {}
    for _ in range(50):
        gauges = running.gauges()
        if done(gauges):
            break
        time.sleep(0.1)
    return gauges
