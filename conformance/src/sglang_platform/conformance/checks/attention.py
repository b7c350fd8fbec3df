"""Level 4: attention over the paged cache against float64, decode and extend, by declared feature."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import torch

from sglang_platform.conformance.check import CheckFailed, check, expect
from sglang_platform.conformance.fixtures.attention_cases import (
    decode_cases,
    edge_cases,
    extend_cases,
    feature_cases,
    fp8_cases,
    long_cases,
    mixed_cases,
    mla_cases,
)
from sglang_platform.conformance.fixtures.attention_mistakes import named_mistake
from sglang_platform.conformance.fixtures.attention_step import AttentionCase, AttentionStep
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles.attention import worst_element
from sglang_platform.conformance.requirement import attention_backend, attention_feature, kv_pool
from sglang_platform.conformance.subject import Subject

_SERVED = (attention_backend(), kv_pool())


def _judge(step: AttentionStep, out: torch.Tensor) -> None:
    """`out` is within the bound of the oracle, everywhere; else the message says what it looks like."""
    case = step.case
    tokens = sum(new for _, new in case.requests)
    width = case.heads[0] * step.v_dim
    expect(
        isinstance(out, torch.Tensor) and out.numel() == tokens * width and out.shape[0] == tokens,
        f"forward() answers {list(out.shape) if isinstance(out, torch.Tensor) else out!r} for {tokens} tokens of"
        f" {case.heads[0]} heads x {step.v_dim}",
        fix="answer [tokens, query heads * v_head_dim]",
    )
    expect(out.dtype == step.dtype, f"forward() answers {out.dtype} to queries of {step.dtype}")
    got = out.cpu().reshape(tokens, case.heads[0], step.v_dim)
    expected = step.expected()
    ratio, where = worst_element(got, expected)
    if ratio <= 1:
        return
    token, head, at = where
    request, position = _token(case, token)
    seen = (
        f"request {request}, position {position}, head {head}: {float(got[where]):.5g} at {at}, and must be"
    )
    seen += f" {float(expected.value[where]):.5g} (within {float(expected.bound[where]):.2g})"
    if not torch.isfinite(got).all():
        raise CheckFailed(
            f"NaN or infinity came out. {seen}",
            fix="mask scores before the softmax, and let no value outside the request into the weighted sum: a weight"
            " of zero times NaN is NaN",
        )
    mistake = named_mistake(step, got)
    if mistake is not None:
        raise CheckFailed(f"{mistake[0]}: the output is what comes out of that. {seen}", fix=mistake[1])
    raise CheckFailed(f"wrong by {ratio:.3g} times the bound. {seen}")


def _token(case: AttentionCase, token: int) -> tuple[int, int]:
    for request, (cached, new) in enumerate(case.requests):
        if token < new:
            return request, cached + token
        token -= new
    raise IndexError(token)


def _run(subject: Subject, case: AttentionCase) -> None:
    step = AttentionStep(subject, case)
    _judge(step, step.got())


@check(
    level=Level.KERNELS,
    requires=_SERVED,
    cases=decode_cases,
    fix="attend to the first seq_lens[i] tokens of each request, through req_to_token[req_pool_indices[i]]",
)
def decode_attention(subject: Subject, case: AttentionCase) -> None:
    """One new token per request against its cached tokens and itself, for every declared grouping of heads."""
    _run(subject, case)


@check(
    level=Level.KERNELS,
    requires=_SERVED,
    cases=extend_cases,
    fix="the new token in row i of a request stands at position prefix + i, and sees the prefix and the new tokens up"
    " to itself",
)
def extend_attention(subject: Subject, case: AttentionCase) -> None:
    """New tokens against their cached prefix and themselves, causal: without a prefix, with one that ends inside, at
    and behind the edge of a page, and several requests at once."""
    _run(subject, case)


@check(
    level=Level.KERNELS,
    requires=(*_SERVED, attention_feature("mixed_batch")),
    cases=mixed_cases,
    fix="treat a decoding request of a mixed batch as an extend by one token",
)
def mixed_batch_attention(subject: Subject, case: AttentionCase) -> None:
    """Decoding requests and prefills in one batch."""
    _run(subject, case)


def _feature(word: str):  # type: ignore[no-untyped-def]
    def cases(subject: Subject, rng: random.Random) -> Iterator[AttentionCase]:
        return feature_cases(subject, word)

    return cases


@check(
    level=Level.KERNELS,
    requires=(*_SERVED, attention_feature("sliding_window")),
    cases=_feature("sliding_window"),
    fix="a token at position i sees positions i - layer.sliding_window_size to i",
)
def sliding_window_attention(subject: Subject, case: AttentionCase) -> None:
    """A sliding window, narrower than, equal to and wider than the request."""
    _run(subject, case)


@check(
    level=Level.KERNELS,
    requires=(*_SERVED, attention_feature("logit_cap")),
    cases=_feature("logit_cap"),
    fix="score = scaling * q.k, then cap * tanh(score / cap), then the mask",
)
def logit_cap_attention(subject: Subject, case: AttentionCase) -> None:
    """The soft cap on scores, alone and with a sliding window where both are declared."""
    _run(subject, case)


@check(
    level=Level.KERNELS,
    requires=(*_SERVED, attention_feature("sinks")),
    cases=_feature("sinks"),
    fix="take `sinks` [query heads] from forward()'s keywords, and add exp(sink) to the sum of each head's weights",
)
def sink_attention(subject: Subject, case: AttentionCase) -> None:
    """One learned logit per head in the denominator of the softmax."""
    _run(subject, case)


@check(
    level=Level.KERNELS,
    requires=(*_SERVED, attention_feature("encoder")),
    cases=_feature("encoder"),
    fix="where layer.attn_type is encoder-only, every token sees every token of its request",
)
def encoder_attention(subject: Subject, case: AttentionCase) -> None:
    """Attention without a causal mask, for encoder-only layers."""
    _run(subject, case)


@check(
    level=Level.KERNELS,
    requires=(*_SERVED, attention_feature("mla")),
    cases=mla_cases,
    fix="all query heads share one row of kv_lora_rank + qk_rope_head_dim numbers, whose first kv_lora_rank are values",
)
def mla_attention(subject: Subject, case: AttentionCase) -> None:
    """Multi-head latent attention in the absorbed form."""
    _run(subject, case)


@check(
    level=Level.KERNELS,
    requires=(*_SERVED, attention_feature("fp8_kv")),
    cases=fp8_cases,
    fix="keys are stored as k / k_scale, values as v / v_scale: multiply what is read by layer.k_scale, layer.v_scale",
)
def fp8_kv_attention(subject: Subject, case: AttentionCase) -> None:
    """An fp8 cache, without scales and with scales that differ for keys and values."""
    _run(subject, case)


@check(
    level=Level.KERNELS,
    requires=_SERVED,
    cases=edge_cases,
    fix="never let a slot outside the request into the result: mask loads, not only scores, since 0 * NaN is NaN",
)
def unused_slots_never_reach_the_output(subject: Subject, case: AttentionCase) -> None:
    """With NaN in every slot that belongs to no request, in the rest of each last page and in the padding slot, the
    output is the same."""
    step = AttentionStep(subject, case, unused=float("nan"))
    _judge(step, step.got())


@check(
    level=Level.KERNELS,
    requires=_SERVED,
    cases=long_cases,
    fix="do not leave the order of a sum to chance: no atomics on the output, a fixed split of the keys",
)
def attention_is_deterministic(subject: Subject, case: AttentionCase) -> None:
    """The same step gives the same bits, three times."""
    step = AttentionStep(subject, case)
    first = step.got().cpu().clone()
    for _ in range(2):
        again = step.got().cpu()
        expect(
            torch.equal(first, again), f"the same step differs by {float((first - again).abs().max()):.3g}"
        )


@check(
    level=Level.KERNELS,
    requires=_SERVED,
    cases=edge_cases,
    fix="use the strides of q, k and v, or reshape() instead of view(): they are slices of a fused projection",
)
def attention_takes_slices_of_fused_qkv(subject: Subject, case: AttentionCase) -> None:
    """Queries, keys and values that are slices of one tensor give the same as plain ones."""
    step = AttentionStep(subject, replace(case, dtype=subject.declares.kv_dtypes[0]))
    _judge(step, step.got(fused=True))


@check(
    level=Level.KERNELS,
    requires=_SERVED,
    cases=edge_cases,
    fix="with save_kv_cache store the new tokens at out_cache_loc, of the layer given, and nothing else; without it"
    " store nothing",
)
def attention_stores_the_new_tokens_only(subject: Subject, case: AttentionCase) -> None:
    """`forward()` stores the new tokens' keys and values in their slots and changes no other byte; with
    `save_kv_cache=False` it changes none."""
    for save in (False, True):
        step = AttentionStep(subject, case)
        if not save:
            step.store_new_tokens()  # they are there already, as after a fused store
            step.batch.out_cache_loc.zero_()  # nothing may be stored, the padding slot would show it
        before = [_bytes(buffer) for buffer in step.buffers()]
        _judge(step, step.got(save=save))
        given = set(step.new_slots()) if save else set()
        for name, then, buffer in zip(("keys", "values"), before, step.buffers(), strict=True):
            changed = {int(s) for s in torch.nonzero((then != _bytes(buffer)).any(dim=1)).flatten()}
            wrong = sorted(changed - given)
            expect(
                not wrong,
                f"forward(save_kv_cache={save}) wrote {name} to slots {wrong[:6]}, which were not given",
            )
            missing = sorted(given - changed)
            expect(not missing, f"forward() did not store the {name} of slots {missing[:6]}")


def _bytes(buffer: torch.Tensor) -> torch.Tensor:
    return buffer.detach().contiguous().cpu().view(torch.uint8).reshape(buffer.shape[0], -1).clone()
