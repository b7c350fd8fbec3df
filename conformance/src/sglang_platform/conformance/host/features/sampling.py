"""What a request may ask of the sampler, held against logits that transformers computes."""

from __future__ import annotations

import statistics
from typing import Any

from sglang_platform.conformance.check import expect
from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.features.launch import PLAIN, EngineLaunch
from sglang_platform.conformance.host.features.record import feature
from sglang_platform.conformance.host.features.running import Running

__all__: list[str] = []

_GROUP = "Requests"
_FIX = (
    "look at the operators that the sampler uses: sort, cumsum, scatter, multinomial, log_softmax, index_put"
)
_NEW_TOKENS = 16
_ERROR = 2e-3


def _prompts() -> list[list[int]]:
    return reference.prompts([12, 64, 7, 150], seed=9)


@feature(group=_GROUP, title="top-k, top-p and min-p sampling", launch=PLAIN, fix=_FIX)
def sampling_filters(run: Running) -> None:
    """With a filter so narrow that one token is left, sampling at temperature 1 gives the greedy tokens; with a wide
    one, tokens whose probability transformers puts inside the filter."""
    prompts = _prompts()
    greedy = run.expected(prompts, _NEW_TOKENS)
    for narrow in ({"top_k": 1}, {"top_p": 1e-6}, {"min_p": 1.0}):
        got = run.ask(prompts, _NEW_TOKENS, temperature=1.0, **narrow)
        expect(
            got == greedy,
            f"sampled with {narrow}, which leaves one token, the tokens are not the greedy ones",
        )
    for prompt, tokens in zip(prompts, run.ask(prompts, _NEW_TOKENS, temperature=1.0, top_k=5), strict=True):
        ranks = reference.ranks(run.checkpoint, prompt, tokens)
        expect(max(ranks) < 5, f"with top_k=5 tokens of rank {ranks} were sampled (0 is the likeliest)")


@feature(group=_GROUP, title="log probabilities of prompt and answer", launch=PLAIN, fix=_FIX)
def log_probabilities(run: Running) -> None:
    """Log probabilities of the prompt's tokens, the answer's, the five likeliest of each step, and tokens that are
    asked for by some requests of a batch, are those of transformers."""
    for prompt in _prompts():
        (reply,) = run.engine.call("generate_logprobs", input_ids=[prompt], max_new_tokens=8, top=5)
        tokens = reply["output_ids"]
        wanted = reference.logprobs(run.checkpoint, prompt + tokens)
        got = [*reply["prompt"][1:], *reply["answer"]]
        worst = max(abs(a - b) for a, b in zip(got, wanted, strict=True))
        expect(
            worst < _ERROR, f"a prompt of {len(prompt)} tokens: log probabilities differ by up to {worst:.2g}"
        )
        likeliest = reference.likeliest(run.checkpoint, prompt + tokens, 5)[len(prompt) - 1 :]
        expect(
            reply["top"] == likeliest,
            f"the likeliest tokens are {reply['top']}, and transformers gives {likeliest}",
        )
    _log_probabilities_of_chosen_tokens(run)


def _log_probabilities_of_chosen_tokens(run: Running) -> None:
    prompts = _prompts()
    chosen = [[3, 700], None, [9], None]
    asked = {"input_ids": prompts, "chosen": chosen, "max_new_tokens": 4}
    replies = run.engine.call("generate_chosen_logprobs", **asked)
    for prompt, tokens, reply in zip(prompts, chosen, replies, strict=True):
        if tokens is None:
            continue
        wanted = [
            [
                reference.logprobs(run.checkpoint, [*prompt, *reply["output_ids"][:step], token])[-1]
                for token in tokens
            ]
            for step in range(4)
        ]
        expect(
            len(reply["chosen"]) == 4
            and all(
                abs(a - b) < _ERROR
                for got, want in zip(reply["chosen"], wanted, strict=True)
                for a, b in zip(got, want, strict=True)
            ),
            f"beside requests that ask for none, the log probabilities of the tokens {tokens} are "
            f"{reply['chosen']}, and transformers gives {wanted}",
        )


@feature(group=_GROUP, title="logit bias", launch=PLAIN, fix=_FIX)
def logit_bias(run: Running) -> None:
    """A bias of 100 makes a token certain, for its own request only."""
    prompts = _prompts()
    biased = run.engine.call(
        "generate_each",
        input_ids=prompts,
        sampling=[{"logit_bias": {"77": 100.0}}, {}, {"logit_bias": {"99": 100.0}}, {}],
        max_new_tokens=6,
    )
    plain = run.expected(prompts, 6)
    wanted = [[77] * 6, plain[1], [99] * 6, plain[3]]
    expect(biased == wanted, f"biased to tokens 77 and 99, requests 0 and 2 of 4 give {biased}")


@feature(group=_GROUP, title="frequency, presence and repetition penalties", launch=PLAIN, fix=_FIX)
def penalties(run: Running) -> None:
    """Greedy tokens under each penalty are those of a plain loop over the logits of transformers."""
    prompts = _prompts()[:2]
    for penalty in ({"frequency_penalty": 1.5}, {"presence_penalty": 1.5}, {"repetition_penalty": 1.6}):
        got = run.ask(prompts, 10, **penalty)
        wanted = [reference.greedy_with_penalty(run.checkpoint, prompt, 10, **penalty) for prompt in prompts]
        expect(got == wanted, f"with {penalty} the tokens are {got}, and the plain loop gives {wanted}")


@feature(group=_GROUP, title="stop tokens and minimum length", launch=PLAIN, fix=_FIX)
def stop_tokens(run: Running) -> None:
    """A request ends with the token that it names, not before its minimum length, and the others go on."""
    prompts = _prompts()
    plain = run.expected(prompts, _NEW_TOKENS)
    stop = plain[0][4]
    first = plain[0].index(stop)
    got = run.engine.call(
        "generate_each",
        input_ids=prompts,
        sampling=[{"stop_token_ids": [stop], "ignore_eos": False}, {}, {}, {}],
        max_new_tokens=_NEW_TOKENS,
    )
    expect(got[0] == plain[0][: first + 1], f"asked to stop at {stop}, it gives {got[0]}; plain: {plain[0]}")
    expect(got[1:] == plain[1:], "requests beside the one that stops early get other tokens")


@feature(group=_GROUP, title="several answers to one prompt", launch=PLAIN, fix=_FIX)
def several_answers(run: Running) -> None:
    """With n=4 every greedy answer is the reference; sampled answers differ from each other."""
    (prompt,) = _prompts()[:1]
    greedy = run.ask([prompt], _NEW_TOKENS, n=4)
    expect(greedy == run.expected([prompt], _NEW_TOKENS) * 4, f"n=4 greedy answers: {greedy}")
    sampled = run.ask([prompt], _NEW_TOKENS, n=4, temperature=1.5)
    expect(
        len({tuple(answer) for answer in sampled}) > 1,
        "four answers sampled at temperature 1.5 are all the same",
    )


@feature(
    group=_GROUP,
    title="hidden states",
    launch=PLAIN,
    fix="hand back the hidden states that the model returns",
)
def hidden_states(run: Running) -> None:
    """The hidden states returned for the prompt and for each token after it are those of transformers."""
    for prompt in reference.prompts([20, 90], seed=10):  # none in the cache yet: each token is computed
        reply = run.engine.call("hidden_states", input_ids=prompt, max_new_tokens=4)
        got = reply["rows"]
        wanted = reference.hidden_states(run.checkpoint, prompt + reply["output_ids"][:-1])
        expect(len(got) == len(wanted), f"{len(got)} hidden states for {len(wanted)} tokens")
        largest = max(abs(value) for row in wanted for value in row)
        worst = max(abs(a - b) for g, w in zip(got, wanted, strict=True) for a, b in zip(g, w, strict=True))
        expect(worst <= 1e-3 * largest, f"a prompt of {len(prompt)} tokens: they differ by {worst:.2g}")


def _fp8(models: Any) -> dict[str, Any]:
    return {"kv_cache_dtype": "fp8_e4m3"}


@feature(
    group="Memory",
    title="a KV cache of 8-bit floats",
    launch=EngineLaunch("fp8_cache", prepare=_fp8),
    fix="scale keys and values before they are rounded, and undo it after they are read",
)
def fp8_cache(run: Running) -> None:
    """With keys and values of 4 bits of mantissa the tokens chosen still lie at the top of transformers' logits."""
    prompts = reference.prompts((9, 40, 150, 300))
    gaps = [
        gap
        for prompt, answer in zip(prompts, run.ask(prompts, _NEW_TOKENS), strict=True)
        for gap in reference.gaps(run.checkpoint, prompt, answer)
    ]
    expect("float8_e4m3" in run.engine.output(), "the engine does not say that its cache is of 8-bit floats")
    expect(
        statistics.mean(gaps) < 0.1 and max(gaps) < 1.0,
        f"the chosen tokens lie {statistics.mean(gaps):.3f} standard deviations below the largest logit on average, "
        f"{max(gaps):.2f} at most",
    )
