"""Level 4: each feature that attention may have, by its row in `fixtures.attention_features`.

What is declared is compared with the oracle; what is not declared is refused, and never left out in silence.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from sglang_platform.conformance.check import CheckFailed, check
from sglang_platform.conformance.fixtures.attention_case import AttentionCase
from sglang_platform.conformance.fixtures.attention_features import FEATURES, JudgedFeature
from sglang_platform.conformance.fixtures.attention_judge import run_step
from sglang_platform.conformance.fixtures.attention_step import AttentionStep
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles.attention import worst_element
from sglang_platform.conformance.requirement import attention_backend, attention_feature, kv_kind, kv_pool
from sglang_platform.conformance.subject import Subject


def register(feature: JudgedFeature) -> None:
    """Make the feature's own check."""

    def attention_with_feature(subject: Subject, case: AttentionCase) -> None:
        run_step(subject, case)

    assert feature.check is not None
    assert feature.cases is not None
    attention_with_feature.__name__ = attention_with_feature.__qualname__ = feature.check
    attention_with_feature.__doc__ = feature.cases.__doc__
    requires = (attention_backend(), kv_pool(), attention_feature(feature.name))
    founds = f"attention with {feature.name}"
    check(level=Level.KERNELS, requires=requires, cases=feature.cases, founds=founds, fix=feature.fix)(
        attention_with_feature
    )


for _feature in FEATURES.values():
    if _feature.check is not None:
        register(_feature)


@dataclass(frozen=True)
class UndeclaredFeature:
    feature: str
    step: AttentionCase


def undeclared_features(subject: Subject, rng: random.Random) -> Iterator[UndeclaredFeature]:
    """For each feature that is not declared, the steps of most tokens in which leaving it out shows."""
    for feature in FEATURES.values():
        if feature.refused_with is None or feature.name in subject.declares.attention_features:
            continue
        assert feature.cases is not None
        shows = {feature.name: feature.refused_with}
        cases = [case for case in feature.cases(subject, rng) if case.features == shows]
        for mode in ("decode", "extend"):
            last = [case for case in cases if case.mode == mode][-1:]
            yield from (UndeclaredFeature(feature.name, case) for case in last)


@check(
    level=Level.KERNELS,
    requires=[attention_backend(), kv_kind("mha")],
    cases=undeclared_features,
    fix="raise NotImplementedError where the layer or the keywords of forward() ask for a feature that the kernels do"
    " not compute; or compute it, and add it to attention_features",
)
def undeclared_feature_is_refused(subject: Subject, case: UndeclaredFeature) -> None:
    """A feature that is not declared is refused with an error, or computed rightly; it is never just left out."""
    step = AttentionStep(subject, case.step)
    try:
        out = step.got()
    except CheckFailed:  # it was computed, and changed what it was lent
        raise
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
