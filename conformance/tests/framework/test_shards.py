"""Shards of a run, joined: the verdict of the run in one piece, and refused where they are not of one run."""

from __future__ import annotations

import copy
import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import BAD, FACTORIES, NAMED, conformance

from sglang_platform.conformance.report.digests import checksum
from sglang_platform.conformance.report.document import counted, levels_of
from sglang_platform.conformance.report.files import read_report, write_report
from sglang_platform.conformance.report.merge import merged
from sglang_platform.conformance.report.verify import problems_of
from sglang_platform.conformance.verdict import judge
from sglang_platform.core.errors import ConfigurationError

Report = dict[str, Any]
_CHECKS = (FACTORIES, NAMED, "packaging.metadata_is_sound", "contract.identity_agrees_with_enum")
_WORDS = ["--platform", BAD, *(word for name in _CHECKS for word in ("--check", name))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two shards of a run of some checks, of which one fails, in folders `1` and `2`."""
    made = tmp_path_factory.mktemp("shards")
    statuses = {
        conformance(*_WORDS, "--shard", f"{n}/2", "--report", str(n), folder=made).returncode for n in (1, 2)
    }
    assert statuses == {0, 1}  # the failing check is in one of them
    return made


@pytest.fixture
def shards(folder: Path) -> list[Report]:
    return [copy.deepcopy(read_report(folder / str(n) / "report.json")) for n in (1, 2)]


def test_joined_they_are_the_run_in_one_piece(folder: Path, tmp_path: Path) -> None:
    whole = conformance(*_WORDS, "--report", str(tmp_path / "whole"), folder=tmp_path)
    words = ["--report", str(tmp_path / "joined"), "--junit", str(tmp_path / "joined.xml")]
    joined = conformance("merge", "1", "2", *words, folder=folder)
    assert (whole.returncode, joined.returncode) == (1, 1), joined.stdout + joined.stderr
    assert whole.stdout.splitlines()[-1] == joined.stdout.splitlines()[-1]
    one, two = (read_report(tmp_path / name / "report.json") for name in ("whole", "joined"))
    assert one["verdict"] == two["verdict"]
    assert one["summary"] == two["summary"]

    def told(report: Report) -> list[tuple[Any, ...]]:
        return [(each["id"], each["status"], each["what"], each["seed"]) for each in report["outcomes"]]

    assert told(one) == told(two)
    assert [each["shard"] for each in two["run"]["shards"]] == ["1/2", "2/2"]
    assert [problem for problem in problems_of(two) if "which files" not in problem] == [
        problem for problem in problems_of(one) if "which files" not in problem
    ]
    suites = ElementTree.parse(tmp_path / "joined.xml").getroot()
    assert sum(int(each.get("tests", 0)) for each in suites) == len(_CHECKS)


def test_a_missing_shard_and_one_that_is_there_twice_are_named(folder: Path) -> None:
    missing = conformance("merge", "1", folder=folder)
    assert (missing.returncode, "shard 2/2 is missing" in missing.stderr) == (2, True), missing.stderr
    twice = conformance("merge", "1", "2", "2/report.json", folder=folder)
    assert (twice.returncode, "shard 2/2 is there twice" in twice.stderr) == (2, True), twice.stderr
    assert "run every shard with the same options" in twice.stderr
    for other in (missing, twice):
        assert "Traceback" not in other.stderr


_Change = Callable[[list[Report]], Any]


def _in_second(*path: str, value: Any) -> _Change:
    def change(shards: list[Report]) -> None:
        at = shards[1]
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value

    return change


def _of_no_shard(shards: list[Report]) -> None:
    shards[1]["run"]["shard"] = None


def _of_three(shards: list[Report]) -> None:
    shards[1]["run"]["shard"] = "2/3"


def _of(*told: str) -> _Change:
    def change(shards: list[Report]) -> None:
        for shard, one in zip(shards, told, strict=True):
            shard["run"]["shard"] = one

    return change


def _unmatched_quotation(shards: list[Report]) -> None:
    for shard in shards:
        shard["run"]["command"] += " --seed '"


def _other_checks(shards: list[Report]) -> None:
    shards[1]["run"]["command"] += " -k store"


def _one_in_both(shards: list[Report]) -> None:
    shards[1]["outcomes"].append(dict(shards[0]["outcomes"][0]))


_REFUSED: dict[str, tuple[_Change, str]] = {
    "of no shard": (_of_no_shard, "one of them is of no shard"),
    "of three": (_of_three, "they are of 2 and of 3 shards"),
    "of more than anybody counts to": (_of("1/99999999999999", "2/99999999999999"), "not all of one run"),
    "of many": (_of("1/99999999", "2/99999999"), "shard 22/99999999 is missing"),
    "of none": (_of("0/0", "1/0"), "not all of one run"),
    "of no number": (_of("a/b", "b/b"), "not all of one run"),
    "of nothing": (_of("", ""), "not all of one run"),
    "a command that is none": (_unmatched_quotation, "it was edited"),
    "another seed": (_in_second("run", "seed", value=7), "shard 2/2 has another seed than shard 1/2"),
    "another tier": (_in_second("run", "thorough", value=True), "another thorough"),
    "another vendor's file": (_in_second("run", "vendor_digest", value="0" * 64), "another vendor_digest"),
    "other models": (
        _in_second("run", "models", value=[{"path": "a", "digest": "0" * 64, "shapes": []}]),
        "another models",
    ),
    "another suite": (_in_second("suite", "digest", value="0" * 64), "another suite"),
    "another plugin": (_in_second("platform", "version", value="9"), "another platform"),
    "other declarations": (_in_second("declares", "kv_kinds", value=["mha"]), "another declares"),
    "another host": (_in_second("host", value="sglang"), "another host"),
    "other versions": (_in_second("environment", "packages", "torch", value="2.0"), "other versions"),
    "other checks": (_other_checks, "chose other checks"),
    "one check in both": (_one_in_both, "is in two of them"),
    "started tomorrow": (_in_second("run", "started", value="2999-01-01T00:00:00+00:00"), "not been yet"),
    "faster than its checks": (_in_second("run", "seconds", value=-99.0), "its checks took"),
}


@pytest.mark.parametrize("name", _REFUSED)
def test_what_is_not_of_one_run_is_refused(name: str, shards: list[Report]) -> None:
    change, said = _REFUSED[name]
    change(shards)
    with pytest.raises(ConfigurationError) as refused:
        merged(shards, "sglang-platform conformance merge")
    assert said in str(refused.value)


def _consistent(report: Report) -> None:
    report["summary"], report["levels"] = counted(report["outcomes"]), levels_of(report["outcomes"])
    asked = [one["name"] for one in report["verdict"]["profiles"]]
    absent = bool(report["platform"]["device_absent"])
    report["verdict"] = judge(report["outcomes"], asked, device_absent=absent).as_dict()
    report["checksum"] = checksum(report)


def test_a_shard_that_was_edited_is_refused(folder: Path, shards: list[Report], tmp_path: Path) -> None:
    """By its checksum where that was left as it was; where it was computed again `verify --rerun` is needed."""
    (at,) = [n for n in (0, 1) if shards[n]["summary"]["failed"]]
    failed = next(one for one in shards[at]["outcomes"] if one["status"] == "failed")
    passed = {"status": "passed", "failing": []}
    passed |= dict.fromkeys(("failure", "what", "case", "fix", "trace", "rerun"))
    failed.update(passed)
    write_report(shards[at], tmp_path / "edited")
    other = str(folder / str(2 - at))
    run = conformance("merge", str(tmp_path / "edited"), other, folder=tmp_path)
    assert run.returncode == 2, run.stdout
    assert f"shard {at + 1}/2: it was edited" in run.stderr
    _consistent(shards[at])
    assert merged(shards, "x")["summary"]["failed"] == 0


def test_what_is_no_report_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(json.dumps({"schema": 4}))
    run = conformance("merge", str(folder / "1"), str(tmp_path), folder=tmp_path)
    assert (run.returncode, "is no report" in run.stderr) == (2, True), run.stderr
    run = conformance("merge", str(tmp_path / "empty"), folder=tmp_path)
    assert (run.returncode, "is no report" in run.stderr) == (2, True), run.stderr
