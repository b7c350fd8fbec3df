"""Healthy communicators on a device that is not the CPU pass; one that answers on the CPU does not."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from device_communicators import BROKEN, COMMUNICATORS

from sglang_platform.conformance.runner import Runner, Selection

IN_CI = "TorchGroupCommunicator"


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(one.__name__, marks=() if one.__name__ == IN_CI else pytest.mark.long)
        for one in COMMUNICATORS
    ],
)
def test_a_communicator_is_judged_on_its_device(name: str) -> None:
    path = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
    (outcome,) = Runner(
        Selection(
            f"communicates=device_communicators:{name}Platform",
            checks=("distributed.communicator_in_groups",),
            environment={"PYTHONPATH": path},
        )
    ).run()
    if name in BROKEN:
        assert outcome.status == "failed"
        assert "it answers on cpu, and the tensors are on example_oot" in str(outcome.what)
    elif name == "LeavesSmallGroups":
        assert (outcome.status, outcome.why) == (
            "not_applicable",
            "it is disabled in groups of two to four ranks: the host's own is used",
        )
    else:
        assert (outcome.status, outcome.what, outcome.why) == ("passed", None, None)
