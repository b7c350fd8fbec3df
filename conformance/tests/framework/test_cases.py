"""A check tells of every case that fails, each by a name that stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from sglang_platform.conformance.case_ids import CaseNames, case_id, matches, parted
from sglang_platform.conformance.check import Check, CheckFailed
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.outcome import Outcome
from sglang_platform.conformance.subject import Subject
from sglang_platform.conformance.worker import run_check

STORES = "memory.store_reads_back"


@dataclass(frozen=True)
class Shape:
    rows: int
    lengths: tuple[int, ...] = (1,)
    kind: str = "mha"


def test_every_failing_case_is_told_smallest_first(run_odd: Callable[..., list[Outcome]]) -> None:
    (first,) = run_odd("WrongInHalf", STORES)
    assert first.status == "failed"
    ids = [one["id"] for one in first.failing]
    assert len(ids) == len(set(ids)) > 1
    assert all(one.startswith(f"{STORES}[") and "dtype=float16" in one for one in ids)
    assert first.cases > len(ids)  # those after a failing one are run too
    assert (first.what, first.case) == (first.failing[0]["what"], first.failing[0]["case"])
    (again,) = run_odd("WrongInHalf", STORES, seed=5)
    assert [one["id"] for one in again.failing] == ids


def test_a_crash_keeps_the_cases_that_had_failed(run_odd: Callable[..., list[Outcome]]) -> None:
    (outcome,) = run_odd("WrongInHalfAndCrashes", STORES)
    assert [one["failure"] for one in outcome.failing][-1] == "crash"
    assert outcome.failing[-1]["case"]["page_size"] == 16
    assert all(one["failure"] == "check" for one in outcome.failing[:-1])


def test_names_of_cases() -> None:
    assert (
        case_id(Shape(3)) == "rows=3"
    )  # a field that has its default is not told: one that is added renames nothing
    assert case_id(Shape(3, (4, 1), "mla")) == "rows=3,lengths=[4,1],kind=mla"
    long = case_id(Shape(1, tuple(range(90))))
    assert len(long) < 70
    assert long != case_id(Shape(1, tuple(range(91))))
    assert case_id({"finding": "override-dead", "what": "get_foo"}) == "finding=override-dead,what=get_foo"
    names = CaseNames()
    assert [names.of(Shape(1)), names.of(Shape(2)), names.of(Shape(1))] == ["rows=1", "rows=2", "rows=1#2"]


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [("memory.*", True), ("*[*dtype=float16*]", True), ("memory.x[rows=[1,2]*]", True), ("memory.x", False)],
)
def test_globs_take_brackets_as_they_are(pattern: str, fits: bool) -> None:
    assert matches(pattern, "memory.x[rows=[1,2],dtype=float16]") is fits
    assert parted("memory.x[rows=[1,2]]") == ("memory.x", "rows=[1,2]")


def _two_things(subject: Subject) -> None:
    """Looks at several things in one call."""
    raise CheckFailed(
        "a is wrong", case={"thing": "a"}, also=[CheckFailed("b is wrong", case={"thing": "b"})]
    )


def _tests_of_others(subject: Subject) -> None:
    """Runs tests of somebody else."""
    of = {"of": "kit", "baseline": "passed"}
    raise CheckFailed(
        "one failed",
        parts=[{**of, "name": name, "status": name, "why": "why"} for name in ("passed", "failed")],
    )


@pytest.mark.parametrize(
    ("function", "ids"),
    [
        (_two_things, ["packaging.x[thing=a]", "packaging.x[thing=b]"]),
        (_tests_of_others, ["packaging.x[kit::failed]"]),
    ],
)
def test_what_one_call_finds_is_told_one_by_one(function: Callable[[Subject], None], ids: list[str]) -> None:
    check = Check("packaging.x", Level.PACKAGING, function, (), None, "do it", ("none",), "source", 60)
    told = run_check(check, Subject("nobody"), 0)
    assert [one["id"] for one in told["failing"]] == ids
    assert told["status"] == "failed"
