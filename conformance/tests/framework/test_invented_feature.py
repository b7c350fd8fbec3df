"""A new attention feature is a row of the contract and one of the suite: checks, refusal and report follow."""

from __future__ import annotations

import importlib

import pytest
from in_process import FixedSubject, outcome
from invented_feature import FEATURE, MEANS, Computes, Refuses, platform

from sglang_platform.conformance import check as checks
from sglang_platform.conformance.checks import attention_features
from sglang_platform.conformance.description import describe
from sglang_platform.conformance.fixtures.attention_features import FEATURES as JUDGED
from sglang_platform.conformance.reference.attention import ReferenceAttention
from sglang_platform.conformance.report.document import make_document
from sglang_platform.conformance.report.page import page
from sglang_platform.conformance.runner import Selection
from sglang_platform.core.contract.attention_features import FEATURES
from sglang_platform.core.errors import ContractError

OWN, REFUSAL = "kernels.temperature_attention", "kernels.undeclared_feature_is_refused"


@pytest.fixture
def row(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are there, as if they stood in their tables when the suite was imported."""
    monkeypatch.setattr(checks, "_registry", checks.registered())
    monkeypatch.setitem(FEATURES, FEATURE.name, MEANS)
    monkeypatch.setitem(JUDGED, FEATURE.name, FEATURE)
    importlib.reload(attention_features)


def test_the_class_check_knows_the_word_by_the_row_alone(row: None) -> None:
    platform(Computes, "temperature")
    with pytest.raises(ContractError, match="did you mean 'temperature'"):
        platform(Computes, "temperatures")


def test_without_the_row_the_word_is_refused() -> None:
    with pytest.raises(ContractError, match="'temperature', which is none of"):
        platform(Computes, "temperature")


def test_its_cases_are_run_and_judged(row: None) -> None:
    right = outcome(platform(Computes, "temperature"), OWN)
    assert (right.status, right.proves) == ("passed", "Scores that are made hotter and colder.")
    assert right.cases == 12
    wrong = outcome(platform(ReferenceAttention, "temperature"), OWN)
    assert wrong.status == "failed"
    assert wrong.fix == FEATURE.fix
    assert wrong.case is not None
    assert wrong.case["features"] == {"temperature": 0.5}


def test_who_does_not_declare_it_is_not_asked_for_it_but_must_refuse(row: None) -> None:
    unasked = outcome(platform(Refuses), OWN)
    assert (unasked.status, unasked.why) == (
        "not_applicable",
        "not declared: 'temperature' is not in attention_features",
    )
    assert outcome(platform(Refuses), REFUSAL).status == "passed"
    silent = outcome(platform(ReferenceAttention), REFUSAL)
    assert silent.status == "failed"
    assert "temperature is neither declared nor refused" in (silent.what or "")


def test_the_report_lists_it(row: None) -> None:
    cls = platform(Computes, "temperature")
    document = make_document(
        Selection("in_process"),
        describe(FixedSubject(cls())),
        [outcome(cls, OWN)],
        ["core"],
        started=1.8e9,
        command="x",
    )
    assert "temperature" in document["declares"]["attention_features"]
    assert [one["id"] for one in document["outcomes"]] == [OWN]
    assert OWN in page(document)


def test_every_row_is_tested_or_says_why_not() -> None:
    assert list(JUDGED) == list(FEATURES)
    assert all(FEATURES.values())
    for feature in JUDGED.values():
        if feature.check is None:
            assert feature.otherwise, feature.name
        else:
            assert feature.fix, feature.name
            assert feature.cases is not None, feature.name
            assert feature.cases.__doc__, feature.name
