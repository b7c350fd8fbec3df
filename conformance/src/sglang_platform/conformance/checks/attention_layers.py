"""Level 4: layers of one model that differ, called one after the other for one batch."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from sglang_platform.conformance.check import CheckFailed, check, expect
from sglang_platform.conformance.fixtures.attention_case import AttentionCase
from sglang_platform.conformance.fixtures.attention_cases import eight_bit_dtypes
from sglang_platform.conformance.fixtures.attention_judge import OWN_OUTPUT, judge
from sglang_platform.conformance.fixtures.attention_sizes import one_of_each
from sglang_platform.conformance.fixtures.attention_step import AttentionStep
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import attention_backend, kv_pool
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_FEATURES: tuple[tuple[dict[str, object], dict[str, object]], ...] = (
    ({}, {"sliding_window": 12}),
    ({}, {"logit_cap": 2.0}),
    ({"logit_cap": 2.0}, {"logit_cap": 20.0}),
    ({}, {"sinks": True}),
    ({"sinks": True}, {"sinks": True}),
)
"""What two layers ask for; sinks are drawn for each."""

_DEEP = 129
"""As many layers as the deepest models that are served, and as tables of a fixed size forget."""


@dataclass(frozen=True)
class TwoLayers:
    """`other`: the fields of the case in which the second layer differs; its scale is twice as large. `layers`: of the
    pool, of which these are the last and the first."""

    first: AttentionCase
    other: Mapping[str, Any] = field(default_factory=dict)
    layers: int = 2


def two_layers(subject: Subject, rng: random.Random) -> Iterator[TwoLayers]:
    """Layers that differ in their scale only, in each declared feature, and in the scales of an 8-bit cache, each of
    them called first."""
    declared = subject.declares.attention_features
    for case in one_of_each(subject):
        for step in (
            replace(case, mode="decode", requests=((40, 1), (3, 1))),
            replace(case, mode="extend", requests=((21, 6), (0, 30))),
        ):
            yield TwoLayers(step)
            yield TwoLayers(step, layers=_DEEP)
            if case.kind != "mha":
                continue
            if {"gqa", "mha"} <= declared:  # layers of one model may have other numbers of query heads
                yield TwoLayers(replace(step, heads=(4, 2)), {"heads": (6, 2)})
                yield TwoLayers(replace(step, heads=(6, 2)), {"heads": (2, 2)})
            for pair in _FEATURES:
                if {*pair[0], *pair[1]} <= declared:
                    for first, second in (pair, pair[::-1]):
                        yield TwoLayers(replace(step, features=first), {"features": second})
            for name in eight_bit_dtypes(subject):
                scaled = replace(step, kv_dtype=name, kv_scales=(0.25, 2.0))
                yield TwoLayers(scaled, {"kv_scales": (0.5, 0.125)})
                yield TwoLayers(scaled, {"kv_scales": (0.5, 0.125)}, _DEEP)
                yield TwoLayers(scaled, {"kv_scales": None})


@check(
    level=Level.KERNELS,
    requires=(attention_backend(), kv_pool()),
    cases=two_layers,
    fix="take buffers, scale, window, cap, sinks and the scales of the cache from the layer at each call; keep nothing "
    "of the layer before",
)
def layers_differ(subject: Subject, case: TwoLayers) -> None:
    """Two layers of one model with caches of their own, and scales, windows, caps, sinks or cache scales that differ,
    the first and last of 129 layers too, are each right, one after the other for one batch and once more; the output
    of one stays while the other runs."""
    last = AttentionStep(subject, case.first, layers=case.layers)
    lowest = last.beside(last.layer_id - case.layers + 1, scale=2.0, **case.other)
    first, second = (lowest, last) if case.layers == _DEEP else (last, lowest)
    windowed = next((one for one in (first, second) if "sliding_window" in one.case.features), first)
    backend = windowed.backend
    kept: list[tuple[torch.Tensor, torch.Tensor]] = []
    for at, layer in enumerate((first, second, first, second)):
        layer.__dict__["backend"] = backend
        out = layer.forward(*layer.handed(), prepare=at == 0)
        try:
            judge(layer, out)
        except CheckFailed as failed:
            raise CheckFailed(f"the {('first', 'second')[at % 2]} of two layers: {failed.what}") from None
        kept.append((out, out.cpu().clone()))
    expect(
        all(torch.equal(out.cpu(), was) for out, was in kept),
        "the output of a layer is overwritten while the next layer is computed",
        fix=OWN_OUTPUT,
    )
