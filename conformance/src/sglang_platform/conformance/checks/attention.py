"""Level 4: attention over the paged cache against float64, decode and extend, and what holds for every step.

What only some platforms compute is in `attention_features.py`.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from sglang_platform.conformance.check import check, expect
from sglang_platform.conformance.fixtures.attention_case import AttentionCase
from sglang_platform.conformance.fixtures.attention_cases import (
    decode_cases,
    edge_cases,
    extend_cases,
    long_cases,
)
from sglang_platform.conformance.fixtures.attention_judge import judge, run_step
from sglang_platform.conformance.fixtures.attention_step import AttentionStep
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import attention_backend, kv_pool
from sglang_platform.conformance.subject import Subject

_SERVED = (attention_backend(), kv_pool())


@check(
    level=Level.KERNELS,
    requires=_SERVED,
    cases=decode_cases,
    founds="attention backend",
    fix="attend to the first seq_lens[i] tokens of each request, through req_to_token[req_pool_indices[i]]",
)
def decode_attention(subject: Subject, case: AttentionCase) -> None:
    """One new token per request against its cached tokens and itself, for every declared grouping of heads."""
    run_step(subject, case)


@check(
    level=Level.KERNELS,
    requires=_SERVED,
    cases=extend_cases,
    founds="attention backend",
    fix="the new token in row i of a request stands at position prefix + i, and sees the prefix and the new tokens up"
    " to itself",
)
def extend_attention(subject: Subject, case: AttentionCase) -> None:
    """New tokens against their cached prefix and themselves, causal: without a prefix, with one that ends inside, at
    and behind the edge of a page, and several requests at once."""
    run_step(subject, case)


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
    judge(step, step.got())


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
    judge(step, step.got(fused=True))


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
        step = AttentionStep(subject, case, to_be_read=True)
        if not save:
            step.store_new_tokens()  # they are there already, as after a fused store
            step.batch.out_cache_loc.zero_()  # nothing may be stored, the padding slot would show it
        before = step.held()
        judge(step, step.got(save=save))
        given = set(step.new_slots()) if save else set()
        for name, then, now in zip(("keys", "values"), before, step.held(), strict=False):
            changed = set((then != now).any(axis=1).nonzero()[0].tolist())
            wrong = sorted(changed - given)
            expect(
                not wrong,
                f"forward(save_kv_cache={save}) wrote {name} to slots {wrong[:6]}, which were not given",
            )
            missing = sorted(given - changed)
            expect(not missing, f"forward() did not store the {name} of slots {missing[:6]}")
