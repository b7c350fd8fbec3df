"""The share of the machine that a device of the example has."""

from __future__ import annotations

import os

import pytest
import torch
from sglang_platform.core.errors import ConfigurationError

from sglang_platform.example_oot import machine


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    # Both are set, so that both are as before after the test.
    for variable in ("SGLANG_EXAMPLE_OOT_CORES", machine._RANKS):
        monkeypatch.setenv(variable, "")
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)


def test_ranks_share_the_cores_and_the_next_engine_shares_anew() -> None:
    assert machine.cores() == 8
    shares = []
    for ranks in (4, 16, 1):
        machine.share_cores(ranks)
        shares.append(machine.cores())
    assert shares == [2, 1, 8]


def test_what_the_operator_says_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLANG_EXAMPLE_OOT_CORES", "5")
    machine.share_cores(4)
    assert machine.cores() == 5
    monkeypatch.setenv("SGLANG_EXAMPLE_OOT_CORES", "0")
    with pytest.raises(ConfigurationError, match="SGLANG_EXAMPLE_OOT_CORES='0' is not a positive integer"):
        machine.cores()


def test_torch_threads_are_the_most_that_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert machine.cores() == 3
