"""Speculative decoding: what is served are the target model's own tokens, in fewer steps where the drafts are good."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sglang_platform.conformance.check import expect
from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.draft_model import make_eagle_draft, make_repeatable_target
from sglang_platform.conformance.host.features.record import EngineLaunch, feature
from sglang_platform.conformance.host.features.running import Running

__all__: list[str] = []

_GROUP = "Speculative decoding"
_FIX = (
    "answer supports_speculative_algorithm() True only where it holds; write the attention backend on core's base "
    "class, whose forward_verify() and forward_draft() serve with forward_extend() and forward_decode()"
)
_STEPS = 3
_NEW_TOKENS = 24


def _with_draft(make: Callable[[Path, Path], Path]) -> Callable[[Path], Mapping[str, Any]]:
    def prepare(models: Path) -> Mapping[str, Any]:
        target = make_checkpoint(models / "llama", "llama")
        return {"model_path": str(target), "speculative_draft_model_path": str(make(models, target))}

    return prepare


def _itself(models: Path, target: Path) -> Path:
    return target


def _another(models: Path, target: Path) -> Path:
    return make_checkpoint(models / "llama-1", "llama", seed=1)


def _eagle(models: Path, target: Path) -> Path:
    return make_eagle_draft(models / "llama-eagle", target)


def _eagle_that_repeats(models: Path) -> Mapping[str, Any]:
    target = make_repeatable_target(models / "llama-repeatable")
    draft = make_eagle_draft(models / "llama-repeatable-eagle", target, repeats=True)
    return {"model_path": str(target), "speculative_draft_model_path": str(draft)}


def _launch(
    name: str, algorithm: str, prepare: Any = None, architecture: str = "llama", **arguments: Any
) -> EngineLaunch:
    return EngineLaunch(
        f"speculative-{name}",
        {"speculative_algorithm": algorithm, "cuda_graph_bs_decode": [1, 4], **arguments},
        architecture,
        prepare=prepare,
    )


def _chain(**more: Any) -> dict[str, Any]:
    return {
        "speculative_num_steps": _STEPS,
        "speculative_eagle_topk": 1,
        "speculative_num_draft_tokens": _STEPS + 1,
        **more,
    }


def _tree(**more: Any) -> dict[str, Any]:
    # Trees on pages of more than one token are refused by SGLang for all but three backends of its own.
    return {
        "speculative_num_steps": _STEPS,
        "speculative_eagle_topk": 4,
        "speculative_num_draft_tokens": 8,
        "page_size": 1,
        **more,
    }


def _prompts() -> list[list[int]]:
    return reference.prompts((9, 40, 150, 300))


def _equal_tokens(run: Running, **sampling: Any) -> list[int]:
    """The prompts alone and as a batch; answers with the steps that verified drafts for the batch's requests."""
    engine, prompts = run.engine, _prompts()
    wanted = run.expected(prompts, _NEW_TOKENS)
    steps: list[int] = []
    for batch in ([prompts[1]], prompts):
        replies = engine.call("generate", input_ids=batch, max_new_tokens=_NEW_TOKENS, **sampling)
        for prompt, reply in zip(batch, replies, strict=True):
            plain = wanted[prompts.index(prompt)]
            expect(
                reply["output_ids"] == plain,
                f"a prompt of {len(prompt)} tokens, in a batch of {len(batch)}: the tokens are {reply['output_ids']}, "
                f"and transformers gives {plain}",
            )
        steps = [reply["verified_steps"] for reply in replies]
        most = max(steps)
        expect(
            most < _NEW_TOKENS,
            f"{_NEW_TOKENS} tokens took {most} steps after the prefill: more than without drafts",
        )
    return steps


@feature(
    group=_GROUP,
    title="n-gram drafts, trees",
    launch=_launch("ngram", "NGRAM", page_size=1, speculative_num_draft_tokens=8),
    fix=_FIX,
)
def ngram_drafts(run: Running) -> None:
    """Drafts from the text so far form trees; the tokens are those of plain greedy decoding, and a text that was seen
    before is drafted right: it takes a third of the steps."""
    _equal_tokens(run)
    again = _equal_tokens(run)
    expect(
        max(again) <= _NEW_TOKENS // 3,
        f"a text that was seen before takes {again} steps for {_NEW_TOKENS} tokens",
    )


@feature(
    group=_GROUP,
    title="n-gram drafts, sampled requests",
    launch=_launch("ngram", "NGRAM", page_size=1, speculative_num_draft_tokens=8),
    fix=_FIX,
)
def ngram_drafts_sampled(run: Running) -> None:
    """Requests that sample among the likeliest are verified by sampling: a top_p that leaves one token gives the greedy
    tokens, and a temperature of 4 gives others."""
    _equal_tokens(run, temperature=0.8, top_p=1e-6)
    hot = run.ask(_prompts(), _NEW_TOKENS, temperature=4.0)
    expect(
        hot != run.expected(_prompts(), _NEW_TOKENS), "with a temperature of 4 the tokens are the greedy ones"
    )


@feature(
    group=_GROUP,
    title="a draft model (STANDALONE), chains",
    launch=_launch("standalone-chain", "STANDALONE", _with_draft(_itself), **_chain()),
    fix=_FIX,
)
def standalone_chain(run: Running) -> None:
    """With the target itself as the draft model, each verified step accepts exactly what the model proposes from what
    SGLang shows it: a sequence without its first token."""
    got, prompts = _equal_tokens(run), _prompts()
    longer = run.expected(prompts, _NEW_TOKENS + _STEPS + 1)
    wanted = [_verified_steps(run, prompt, output) for prompt, output in zip(prompts, longer, strict=True)]
    expect(
        got == wanted, f"the requests took {got} verified steps, and drafts of the same model take {wanted}"
    )


def _verified_steps(run: Running, prompt: list[int], output: list[int]) -> int:
    """SGLang's draft model reads each sequence shifted by one, as EAGLE's does, so it misses the first token."""
    done, steps = 1, 0
    while done < _NEW_TOKENS:
        ((*drafts,),) = run.expected([(prompt + output[:done])[1:]], _STEPS)
        right = 0
        while right < _STEPS and drafts[right] == output[done + right]:
            right += 1
        done, steps = done + right + 1, steps + 1
    return steps


@feature(
    group=_GROUP,
    title="a draft model (STANDALONE), trees",
    launch=_launch("standalone-tree", "STANDALONE", _with_draft(_itself), **_tree()),
    fix=_FIX,
)
def standalone_tree(run: Running) -> None:
    """Trees of eight drafts, four beams wide: the tokens are those of plain greedy decoding, in no more steps than a
    chain of the same depth takes."""
    _no_more_steps_than_chains(run)


def _no_more_steps_than_chains(run: Running) -> None:
    got, prompts = _equal_tokens(run), _prompts()
    longer = run.expected(prompts, _NEW_TOKENS + _STEPS + 1)
    chain = [_verified_steps(run, prompt, output) for prompt, output in zip(prompts, longer, strict=True)]
    expect(sum(got) <= sum(chain) + len(prompts), f"trees take {got} steps, chains {chain}")


@feature(
    group=_GROUP,
    title="a draft model that knows nothing",
    launch=_launch("standalone-wrong", "STANDALONE", _with_draft(_another), **_chain()),
    fix=_FIX,
)
def standalone_wrong_drafts(run: Running) -> None:
    """Drafts of another model are rejected one and all, and the tokens are the target's."""
    _equal_tokens(run)


@feature(
    group=_GROUP,
    title="EAGLE, chains",
    launch=_launch("eagle-chain", "EAGLE", _with_draft(_eagle), **_chain()),
    fix=_FIX,
)
def eagle_chain(run: Running) -> None:
    """A draft layer on the target's hidden states: the tokens are those of plain greedy decoding."""
    _equal_tokens(run)


@feature(
    group=_GROUP,
    title="EAGLE, trees",
    launch=_launch("eagle-tree", "EAGLE", _eagle_that_repeats, **_tree()),
    fix=_FIX,
)
def eagle_tree(run: Running) -> None:
    """Trees of eight drafts of a layer that is the target's: the tokens are those of plain greedy decoding, in no more
    steps than a chain of the same depth takes."""
    _no_more_steps_than_chains(run)


@feature(
    group=_GROUP,
    title="n-gram drafts, gated delta nets (Qwen3-Next)",
    launch=_launch(
        "ngram-delta", "NGRAM", architecture="qwen3_next", page_size=1, speculative_num_draft_tokens=8
    ),
    fix=_FIX,
)
def ngram_drafts_delta(run: Running) -> None:
    """Where drafts are rejected, layers with states go back to the state of the last accepted token."""
    _equal_tokens(run)


@feature(
    group=_GROUP,
    title="n-gram drafts, Mamba-2 (Granite 4)",
    launch=_launch(
        "ngram-mamba", "NGRAM", architecture="granitemoehybrid", page_size=1, speculative_num_draft_tokens=8
    ),
    fix=_FIX,
)
def ngram_drafts_mamba(run: Running) -> None:
    """Where drafts are rejected, layers with states go back to the state of the last accepted token."""
    _equal_tokens(run)
