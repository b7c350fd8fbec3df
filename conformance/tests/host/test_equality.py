"""SGLang through the example platform gives the tokens that transformers gives, and the example's parts made them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sglang_platform.conformance.host.equality import (
    Configuration,
    all_configurations,
    pairwise_configurations,
    run,
)

_IN_CI = (3, 5)
"""Experts and latent attention, graphs and none; the others are `long`."""


def test_pairwise_subset_covers_every_pair_of_the_matrix() -> None:
    def pairs(configurations: list[Configuration]) -> set[tuple[object, ...]]:
        fields = ("architecture", "page_size", "graph_runner", "chunked_prefill")
        return {
            (a, getattr(c, a), b, getattr(c, b))
            for c in configurations
            for a in fields
            for b in fields
            if a < b
        }

    assert pairs(pairwise_configurations()) == pairs(all_configurations())
    assert len(pairwise_configurations()) < len(all_configurations()) / 3


@pytest.mark.engine
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "configuration",
    [
        pytest.param(one, id=str(one), marks=() if at in _IN_CI else pytest.mark.long)
        for at, one in enumerate(pairwise_configurations())
    ],
)
def test_same_tokens_as_transformers(configuration: Configuration, models: Path) -> None:
    outcome = run(configuration, platform="example_oot", folder=models)
    assert outcome.failures == []
    print(f"chunks {outcome.chunks}, cached tokens {outcome.cached_tokens}, counters {outcome.counters}")
