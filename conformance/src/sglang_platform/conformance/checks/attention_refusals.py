"""Level 4: what the attention backend does not declare, it refuses, and does not get wrong in silence."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from sglang_platform.conformance.check import CheckFailed, check
from sglang_platform.conformance.fixtures.attention_cases import feature_cases
from sglang_platform.conformance.fixtures.attention_step import AttentionCase, AttentionStep
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles.attention import worst_element
from sglang_platform.conformance.requirement import attention_backend, kv_kind
from sglang_platform.conformance.subject import Subject

_WORDS = ("sliding_window", "logit_cap", "sinks", "encoder")


@dataclass(frozen=True)
class Undeclared:
    feature: str
    step: AttentionCase


def undeclared(subject: Subject, rng: random.Random) -> Iterator[Undeclared]:
    for word in _WORDS:
        if word in subject.declares.attention_features:
            continue
        cases = list(feature_cases(subject, word))
        for mode in ("decode", "extend"):
            # The most tokens and a narrow window, so that the feature changes the result.
            last = [case for case in cases if case.mode == mode and (case.window or 0) <= 2][-1:]
            yield from (Undeclared(word, case) for case in last)


@check(
    level=Level.KERNELS,
    requires=[attention_backend(), kv_kind("mha")],
    cases=undeclared,
    fix="raise NotImplementedError where the layer or the keywords of forward() ask for a feature that the kernels do"
    " not compute; or compute it, and add it to attention_features",
)
def undeclared_feature_is_refused(subject: Subject, case: Undeclared) -> None:
    """A feature that is not declared is refused with an error, or computed rightly; it is never just left out."""
    step = AttentionStep(subject, case.step)
    try:
        out = step.got()
    except Exception as error:
        if str(error):
            return
        raise CheckFailed(
            f"{case.feature} is refused with a bare {type(error).__name__}, which says nothing"
        ) from error
    got = out.cpu().reshape(-1, case.step.heads[0], step.v_dim)
    ratio, _ = worst_element(got, step.expected())
    if ratio > 1:
        raise CheckFailed(
            f"{case.feature} is not in attention_features, and a layer that needs it is computed without it, silently:"
            f" the output is wrong by {ratio:.3g} times the bound"
        )
