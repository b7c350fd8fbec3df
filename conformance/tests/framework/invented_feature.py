"""An attention feature that the contract does not know: scores are multiplied by a temperature that the call names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

from sglang_platform.conformance.fixtures.asked import Asked, AskingStep
from sglang_platform.conformance.fixtures.attention_case import AttentionCase
from sglang_platform.conformance.fixtures.attention_cases import feature_steps
from sglang_platform.conformance.fixtures.attention_features import JudgedFeature
from sglang_platform.conformance.reference.attention import ReferenceAttention
from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.conformance.subject import Subject


def temperature_cases(subject: Subject, rng: Any) -> Iterator[AttentionCase]:
    """Scores that are made hotter and colder."""
    for case in feature_steps(subject):
        yield case.using(temperature=0.5)
        yield case.using(temperature=3.0)


def temperature(step: AskingStep, value: float) -> Asked:
    return Asked(forward={"temperature": value}, rule={"scale": step.scale * value})


MEANS = "scores are multiplied by a temperature that the call names"
"""The contract's row."""

FEATURE = JudgedFeature(
    name="temperature",
    check="temperature_attention",
    fix="multiply the scores by `temperature` of forward()'s keywords",
    cases=temperature_cases,
    asks=temperature,
    refused_with=3.0,
)
"""The suite's row."""


class Computes(ReferenceAttention):
    """The feature's kernels."""

    def _forward(self, q: torch.Tensor, *rest: Any) -> torch.Tensor:
        layer = replace(rest[2], scaling=rest[2].scaling * self.temperature)
        return super()._forward(q, *rest[:2], layer, *rest[3:])

    def forward_decode(self, *args: Any, temperature: float = 1.0, **kwargs: Any) -> torch.Tensor:
        self.temperature = temperature
        return super().forward_decode(*args, **kwargs)

    def forward_extend(self, *args: Any, temperature: float = 1.0, **kwargs: Any) -> torch.Tensor:
        self.temperature = temperature
        return super().forward_extend(*args, **kwargs)


class Refuses(ReferenceAttention):
    """A backend without the feature that says so."""

    def forward_decode(self, *args: Any, temperature: float = 1.0, **kwargs: Any) -> torch.Tensor:
        if temperature != 1:
            raise NotImplementedError("no temperature on this device")
        return super().forward_decode(*args, **kwargs)

    def forward_extend(self, *args: Any, temperature: float = 1.0, **kwargs: Any) -> torch.Tensor:
        if temperature != 1:
            raise NotImplementedError("no temperature on this device")
        return super().forward_extend(*args, **kwargs)


def platform(backend: type, *declared: str) -> type:
    """A reference platform with this backend that declares these words besides its own."""

    class Invented(ReferencePlatform):
        attention_features = (*ReferencePlatform.attention_features, *declared)

        def get_attention_backends(self) -> dict[str, Callable[..., Any]]:
            return {"reference": backend}

    return Invented
