"""What a platform keeps of a call for the next is found, and told as that; slots of drafts are the table's."""

from __future__ import annotations

import kept_of_calls
import pytest
from in_process import first_failure
from kept_of_calls import SLOTS

from conftest import HERE, environment
from sglang_platform.conformance.outcome import Outcome
from sglang_platform.conformance.runner import Runner, Selection

_FOLLOW = "kernels.op_calls_follow_each_other"


def _values_of(name: str) -> Outcome:
    checks = ("kernels.op_values[op=layernorm.rms_norm,*width=8]",)
    chosen = Selection(f"kept=kept_of_calls:{name}", checks=checks, environment=environment(HERE))
    (outcome,) = Runner(chosen).run()
    return outcome


def test_a_failure_that_depends_on_earlier_calls_is_told_as_that() -> None:
    outcome = _values_of("EpsilonKept")
    assert outcome.status == "failed"
    assert (outcome.what or "").startswith("passes alone, in a fresh process; after other calls: rms_norm")
    assert (outcome.fix or "").startswith("op layernorm.rms_norm depends on earlier calls")
    assert (outcome.failing[0]["what"], outcome.failing[0]["fix"]) == (outcome.what, outcome.fix)


def test_a_failure_that_depends_on_nothing_keeps_its_fix() -> None:
    outcome = _values_of("EpsilonOfItsOwn")
    assert outcome.status == "failed"
    assert "alone" not in (outcome.what or "")
    assert "epsilon inside the root" in (outcome.fix or "")


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("TurnsOfTheStep", "for layer 1, of the very tensors of the call before"),
        ("PositionsOfTheStep", "of the tensors of the call before, written over"),
    ],
)
def test_layers_that_are_handed_the_same_tensors_have_answers_of_their_own(name: str, how: str) -> None:
    failed, what = first_failure(getattr(kept_of_calls, name), [_FOLLOW])
    assert failed == _FOLLOW
    assert how in what


@pytest.mark.parametrize("name", SLOTS)
def test_slots_of_drafts_are_those_of_the_table(name: str) -> None:
    platform, says = SLOTS[name]
    failed, what = first_failure(platform, ["kernels.draft_slots_are_read_from_the_table"])
    assert (failed is not None) == bool(says)
    assert says in what
