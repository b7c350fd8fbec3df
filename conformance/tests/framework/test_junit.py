"""The JUnit file: what continuous integration reads of a report."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

from sglang_platform.conformance.description import nobody
from sglang_platform.conformance.outcome import Outcome, failed_with
from sglang_platform.conformance.report.document import make_document
from sglang_platform.conformance.report.junit import junit
from sglang_platform.conformance.runner import Selection


def _outcome(name: str, status: Any, **fields: Any) -> Outcome:
    return Outcome(name, name.partition(".")[0], f"{name} holds", status, seconds=0.5, **fields)


def _failed(name: str, failure: str, what: str, *, cases: int = 1, waived: int = 0) -> Outcome:
    failing = [
        {
            "id": f"{name}[rows={at}]", "case": {"rows": at}, "failure": failure, "what": what, "fix": "do it",
            "place": None, "trace": None, "waived": "known" if at < waived else None,
        }
        for at in range(cases)
    ]  # fmt: skip
    outcome = _outcome(
        name,
        "failed",
        rerun=f"sglang-platform conformance --check {name}",
        source="conformance/checks/x.py:7",
    )
    for field, value in failed_with(failing).items():
        setattr(outcome, field, value)
    return outcome


@pytest.fixture(scope="module")
def suites() -> dict[str, ElementTree.Element]:
    outcomes = [
        _outcome("packaging.asking_leaves_the_process_alone", "passed", cases=1),
        _outcome(
            "packaging.metadata_is_sound", "not_run", cause="package", why="it is not installed\nas a wheel"
        ),
        _failed(
            "memory.store_reads_back", "check", "slot 3 holds <0.5> & \x1b[31mnothing\x00", cases=3, waived=1
        ),
        _failed("memory.cpu_copy_comes_back", "crash", "the process was killed by SIGSEGV"),
        _outcome("kernels.op_values", "blocked", why="see contract.platform_is_created"),
        _outcome("kernels.op_calls_follow_each_other", "unexpected_pass", what="it passes", fix="remove it"),
        _outcome("graphs.replay_equals_eager", "expected_failure", what="differs", why="the firmware is old"),
        _outcome("graphs.every_input_is_copied", "not_applicable", why="no graphs"),
    ]
    document = make_document(
        Selection("my_device"),
        nobody("my_device", None, None),
        outcomes,
        ["core"],
        started=1.8e9,
        command="sglang-platform conformance",
    )
    root = ElementTree.fromstring(junit(document))
    assert root.tag == "testsuites"
    return {suite.get("name", ""): suite for suite in root}


def _case(suite: ElementTree.Element, name: str) -> ElementTree.Element:
    (found,) = [one for one in suite.iter("testcase") if one.get("name") == name]
    return found


def test_a_suite_per_level_counts_its_cases(suites: dict[str, ElementTree.Element]) -> None:
    counts = {
        name: tuple(int(suite.get(kind, "-1")) for kind in ("tests", "failures", "errors", "skipped"))
        for name, suite in suites.items()
    }
    assert counts == {
        "packaging": (2, 0, 0, 1),
        "memory": (2, 1, 1, 0),
        "kernels": (2, 1, 1, 0),
        "graphs": (2, 0, 0, 2),
    }
    for suite in suites.values():
        assert float(suite.get("time", "0")) == pytest.approx(1.0)
        told = {one.get("name"): one.get("value") for one in suite.iter("property")}
        assert (told["seed"], told["tier"]) == ("0", "default")
        assert (told["verdict"] or "").startswith("not conformant to core: 3 checks failed, 1 blocked")


def test_a_failure_tells_what_to_do_and_which_cases_fail(suites: dict[str, ElementTree.Element]) -> None:
    case = _case(suites["memory"], "memory.store_reads_back")
    assert (case.get("classname"), case.get("time")) == ("my_device.memory", "0.500")
    (failure,) = case
    assert (failure.tag, failure.get("type")) == ("failure", "check")
    text = failure.text or ""
    for part in (
        "slot 3 holds <0.5> & ?[31mnothing?",
        "fix: do it",
        "--check memory.store_reads_back",
        "conformance/checks/x.py:7",
    ):
        assert part in text, text
    assert "fails: memory.store_reads_back[rows=1]" in text
    assert "[rows=0]" not in text  # that one is waived


def test_what_died_or_was_blocked_is_an_error_and_the_rest_is_skipped(
    suites: dict[str, ElementTree.Element],
) -> None:
    kinds = {
        case.get("name"): [child.tag for child in case]
        for suite in suites.values()
        for case in suite.iter("testcase")
    }
    assert kinds["memory.cpu_copy_comes_back"] == ["error"]
    assert kinds["kernels.op_values"] == ["error"]
    assert kinds["kernels.op_calls_follow_each_other"] == ["failure"]
    assert kinds["packaging.asking_leaves_the_process_alone"] == []
    (skipped,) = _case(suites["graphs"], "graphs.replay_equals_eager")
    assert (skipped.tag, skipped.get("message")) == ("skipped", "expected failure: the firmware is old")
    (skipped,) = _case(suites["packaging"], "packaging.metadata_is_sound")
    assert skipped.get("message") == "it is not installed"
