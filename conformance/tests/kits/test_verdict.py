"""What passes on SGLang's own device must pass on a platform; what does not, excuses only what it resembles."""

from __future__ import annotations

from typing import Any

import pytest

from sglang_platform.conformance.kits.baseline import written
from sglang_platform.conformance.kits.verdict import KitTest, judged
from sglang_platform.conformance.report.kits_page import kits_page

_REFUSED = "NotImplementedError: no such kernel"
_WRONG = "AssertionError: 391 not in the answer"


def _verdict(ours: tuple[str, str], in_tree: tuple[str, str] | None) -> str:
    theirs = [KitTest("kit", "test", *in_tree)] if in_tree else []
    (found,) = judged([KitTest("kit", "test", *ours)], theirs)
    return found.verdict


@pytest.mark.parametrize(
    ("ours", "in_tree", "verdict"),
    [
        (("passed", ""), ("passed", ""), "passed"),
        (("passed", ""), ("failed", _WRONG), "passed"),
        (("passed", ""), None, "passed"),
        (("failed", _WRONG), ("passed", ""), "failed"),
        (("failed", _REFUSED), ("passed", ""), "failed"),
        (("skipped", "SkipTest: no CUDA"), ("passed", ""), "failed"),
        (("failed", _WRONG), None, "failed"),
        (("failed", _WRONG), ("failed", _WRONG), "not applicable"),
        (("failed", _REFUSED), ("failed", "NameError: conv1d"), "not applicable"),
        (("failed", _WRONG), ("failed", _REFUSED), "failed"),
        (("left out", "a data set"), ("left out", "a data set"), "not applicable"),
        (("missing", "ImportError: no module"), ("missing", "ImportError: no module"), "not in it"),
    ],
)
def test_a_verdict(ours: tuple[str, str], in_tree: tuple[str, str] | None, verdict: str) -> None:
    assert _verdict(ours, in_tree) == verdict


def test_what_only_sglangs_own_device_came_to_has_failed() -> None:
    """A process that died in the middle leaves the rest of its kit without a line."""
    found = judged([], [KitTest("kit", "reached", "passed"), KitTest("kit", "hopeless", "failed", _WRONG)])
    assert [(one.test.test, one.verdict) for one in found] == [("reached", "failed")]
    assert "not reached" in found[0].why


def test_the_page_has_the_numbers_and_the_reasons() -> None:
    ours = [KitTest("stop", "one", "passed"), KitTest("stop", "two", "failed", _WRONG)]
    theirs = [KitTest("stop", "one", "failed", _WRONG), KitTest("stop", "two", "passed")]
    parts = [one.as_part() for one in judged(ours, theirs)]
    fields: dict[str, Any] = {"why": None, "what": None, "level": "kits"}
    report = {
        "platform": {"name": "my_device"},
        "environment": {"packages": {"sglang": "0.5.23"}},
        "levels": {"kits": {"seconds": 61.2}},
        "outcomes": [
            {"id": "kits.sglang_stop", "status": "failed", "parts": parts, **fields},
            {"id": "kits.other", "status": "not_run", "parts": None, **fields, "why": "not in its wheel"},
        ],
    }
    page = kits_page(report, {"perf_kit": "measures speed"}, {("stop", "one"): ("failed", _WRONG)})
    assert "**1 of 2 tests pass here, 1 in-tree; 0 are not applicable, 1 fail.**" in page
    assert "| stop | 2 | 1 | 1 | 0 | 1 |" in page
    assert f"`two`: **failed**: {_WRONG}; it passes on SGLang's own CPU device" in page
    assert f"`one`: passed: failed in-tree: {_WRONG}" in page
    assert "kits.other: not in its wheel" in page
    assert "`perf_kit`: measures speed" in page


def test_a_record_is_read_as_it_was_written(tmp_path: Any, monkeypatch: Any) -> None:
    from sglang_platform.conformance.kits import baseline

    tests = [KitTest("stop", "one", "passed", "", 3.5), KitTest("stop", "two", "failed", _WRONG, 1.0)]
    path = tmp_path / "record.json"
    written({"server": tests, "attention": []}, path)
    monkeypatch.setattr(baseline, "record_of", lambda release: path)
    assert baseline.ended("server", list) == [one._replace(seconds=0.0) for one in tests]
    monkeypatch.setattr(baseline, "record_of", lambda release: tmp_path / "no record")
    assert baseline.ended("server", lambda: tests) == tests
