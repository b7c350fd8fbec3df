"""Experts of other ranks add nothing to what SGLang computes in plain torch, and are not loaded."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sglang_platform.core.sglang.repairs.absent_experts import _load_share

pytestmark = pytest.mark.host


def test_the_ranks_of_a_group_add_up_to_one(run_program: Callable[..., Any]) -> None:
    found = json.loads(run_program("compute_absent_experts.py", timeout=300).stdout.splitlines()[-1])
    assert found.pop("none") == 0
    assert len(found) == 14
    for case, outcome in found.items():
        assert outcome["unchanged"], case
        assert outcome["after"] < (0.02 if "bfloat16" in case else 1e-5), (case, outcome)
    # The faults of SGLang, without which the repair can go.
    faulty = {case: outcome["before"] for case, outcome in found.items() if not case.startswith("one rank")}
    assert all(isinstance(before, str) or before > 0.1 for before in faulty.values()), faulty


@pytest.mark.parametrize(
    ("here", "held", "first"),
    [(4, 8, 4), (8, 8, 0), (4, 4, 0), (4, 6, 0)],
    ids=["share", "all", "cut", "odd"],
)
def test_a_rank_loads_its_share(here: int, held: int, first: int) -> None:
    """A tensor that does not hold all experts is left to SGLang."""
    loaded: list[torch.Tensor] = []
    layer = SimpleNamespace(num_experts=8, moe_ep_rank=1)
    weights = torch.arange(held * 3).view(held, 3)
    _load_share(
        lambda layer, param, weight, *more: loaded.append(weight), layer, torch.empty(here, 3), weights
    )
    wanted = weights[first : first + here] if held == layer.num_experts else weights
    assert torch.equal(loaded[0], wanted)
