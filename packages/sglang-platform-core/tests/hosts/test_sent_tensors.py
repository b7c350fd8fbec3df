"""Tensors of the device in SGLang's messages: weights, multimodal inputs, offloaded layers."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.host


@pytest.mark.long
def test_tensors_of_the_device_arrive_as_they_were_sent(monkeypatch, run_program) -> None:
    """Through a socket, and serialized before SGLang's reduction for CUDA is in force and after."""
    monkeypatch.setenv("SGLANG_PLATFORM", "example_oot")
    found = json.loads(run_program("send_tensors.py").stdout.splitlines()[-1])
    assert len(found["before"]) >= 8
    for way, outcomes in found.items():
        assert {case: outcome for case, outcome in outcomes.items() if outcome is not True} == {}, way
