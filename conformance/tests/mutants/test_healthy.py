"""No check fails on platforms with which nothing is wrong: all of them with one seed, without the longest checks;
in CI one.

`python healthy.py --seeds 20` runs every check.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

from healthy import ONCE, false_alarms_of_parts
from healthy_platforms import UNLIKE
from in_process import of_speed

from sglang_platform.conformance.check import registered

SPEED = tuple(name for name, one in registered().items() if of_speed(one))
LONG = (
    *ONCE,
    "memory.random_histories_add_up",
    "kernels.long_context_attention",
    "kernels.wide_batch_attention",
    "kernels.op_values",
    *SPEED,
)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    # Tensors are small: threads would wait for each other.
    torch.set_num_threads(1)


def test_there_are_enough_of_them() -> None:
    assert len(UNLIKE) >= 24


@pytest.mark.parametrize(
    "at",
    [pytest.param(at, id=name, marks=pytest.mark.long) for at, name in enumerate(UNLIKE)],
)
def test_nothing_is_wrong_with_it(at: int) -> None:
    passed, alarms = false_alarms_of_parts(list(UNLIKE)[at], seed=at, without=LONG)
    assert [(one.id, one.what, one.case) for one in alarms] == []
    assert passed >= 25
