"""Reports that were edited by hand, carelessly and with all sums made right again: the contradiction is found."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sglang_platform.conformance.check import registered
from sglang_platform.conformance.report.digests import checksum
from sglang_platform.conformance.report.document import counted, levels_of
from sglang_platform.conformance.report.files import read_report
from sglang_platform.conformance.report.verify import _met, problems_of, reruns
from sglang_platform.conformance.verdict import judge

Report = dict[str, Any]
_CHECKS = (
    "packaging.metadata_is_sound",
    "contract.platform_is_created",
    "contract.device_is_named",
    "memory.store_reads_back",
    "memory.dsa_index_keys_read_back",
    "graphs.graphs_keep_no_memory",
    "graphs.other_batches_are_left_to_the_model",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A true report of some of the example's checks, as the command writes it."""
    made = tmp_path_factory.mktemp("report")
    checks = [word for name in _CHECKS for word in ("--check", name)]
    command = [sys.executable, "-m", "sglang_platform.conformance", "--platform", "example_oot", *checks]
    done = subprocess.run([*command, "--report", str(made)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return made


@pytest.fixture
def report(folder: Path) -> Report:
    return copy.deepcopy(read_report(folder / "report.json"))


def _one(report: Report, name: str) -> Report:
    (found,) = [one for one in report["outcomes"] if one["id"] == name]
    return found


def _made_consistent(report: Report) -> None:
    """What a careful forger makes right again: sums, verdict, checksum."""
    report["summary"], report["levels"] = counted(report["outcomes"]), levels_of(report["outcomes"])
    asked = [one["name"] for one in report["verdict"]["profiles"]]
    absent = bool(report["platform"]["device_absent"])
    report["verdict"] = judge(report["outcomes"], asked, device_absent=absent).as_dict()
    report["checksum"] = checksum(report)


def _summed_again(report: Report) -> None:
    report["checksum"] = checksum(report)


def _careless(report: Report) -> None:
    pass


_STORE = "memory.store_reads_back"
_FAILING = {
    "id": f"{_STORE}[rows=1]",
    "case": None,
    "failure": "check",
    "what": "x",
    "fix": "y",
    "place": None,
    "trace": None,
    "waived": None,
}
_Forgery = tuple[Callable[[Report], Any], Callable[[Report], None], str]


def _set(name: str, **fields: Any) -> Callable[[Report], Any]:
    return lambda report: _one(report, name).update(fields)


def _drop(name: str) -> Callable[[Report], Any]:
    return lambda report: report["outcomes"].remove(_one(report, name))


def _in(*path: str, value: Any) -> Callable[[Report], Any]:
    def change(report: Report) -> None:
        for key in path[:-1]:
            report = report[key]
        report[path[-1]] = value

    return change


def _whole(report: Report) -> None:
    report["run"] |= {"whole": True, "command": "sglang-platform conformance --platform example_oot"}


def _waived(report: Report) -> None:
    _one(report, _STORE).update(status="expected_failure", what="differs", why="known")


def _waived_without_reason(report: Report) -> None:
    report["run"]["vendor_file"] = "conformance.toml"
    _one(report, _STORE).update(status="expected_failure", what=None, why=None)


def _hidden(report: Report) -> None:
    _one(report, _STORE).update(status="not_run", cause="device", why="waits for the device: away", cases=0)


def _undeclared(report: Report) -> None:
    why = "not declared: 'mha' is not in supported_kv_kinds"
    _one(report, "graphs.graphs_keep_no_memory").update(status="not_applicable", why=why, cases=0)


def _not_brought(report: Report) -> None:
    why = "the platform brings no attention backend: one of the host's own is used"
    _one(report, "graphs.other_batches_are_left_to_the_model").update(
        status="not_applicable", why=why, cases=0
    )


def _declares_less(report: Report) -> None:
    report["declares"]["kv_kinds"].remove("dsa")


def _another_platform(report: Report) -> None:
    report["platform"] |= {"name": "cuda", "entry_point": "sglang_platform.cuda:activate"}


def _merged_from(*told: str) -> Callable[[Report], Any]:
    def change(report: Report) -> None:
        run = report["run"]
        part = {name: run[name] for name in ("command", "started", "seconds")} | {
            "checksum": report["checksum"]
        }
        run["shards"] = [{**part, "shard": one} for one in told]

    return change


_FORGERIES: dict[str, _Forgery] = {
    "merged from none": (_merged_from(), _made_consistent, "not all of one run"),
    "merged from more than anybody counts to": (
        _merged_from("1/99999999999", "2/99999999999"), _made_consistent, "not all of one run",
    ),
    "merged from no numbers": (_merged_from("a/b", ""), _made_consistent, "not all of one run"),
    "a command that is none": (_in("run", "command", value="x '--seed"), _made_consistent, "suite was run"),
    "an answer edited": (_set(_STORE, cases=99), _careless, "edited"),
    "a version edited": (_in("environment", "packages", "torch", value="2.0"), _careless, "edited"),
    "a failure removed": (_drop(_STORE), _careless, "edited"),
    "the whole suite claimed": (_whole, _made_consistent, "lacks"),
    "whole, by a command for a part": (_in("run", "whole", value=True), _made_consistent, "suite was run, by"),
    "a check told twice": (lambda r: r["outcomes"].append(dict(r["outcomes"][0])), _made_consistent, "told twice"),
    "a check that does not exist": (_set(_STORE, id="memory.all_is_well"), _made_consistent, "no check"),
    "another run seed": (_in("run", "seed", value=7), _made_consistent, "seed"),
    "another check's seed": (_set(_STORE, seed=1), _made_consistent, "seed"),
    "a check in another level": (_set(_STORE, level="packaging"), _made_consistent, "level"),
    "a check that proves more": (_set(_STORE, proves="All is well."), _made_consistent, "text"),
    "a host that was not there": (_in("host", value="sglang"), _made_consistent, "host"),
    "a check in SGLang, without it": (_set(_STORE, host="sglang"), _made_consistent, "host"),
    "a failure called a missing device": (_hidden, _made_consistent, "which was there"),
    "a failure called undeclared": (_undeclared, _made_consistent, "does not apply"),
    "a failure called not brought": (_not_brought, _made_consistent, "does not apply"),
    "fewer declarations than checked": (_declares_less, _made_consistent, "does not declare"),
    "passed without a case": (_set(_STORE, cases=0), _made_consistent, "without a case"),
    "passed, with a traceback": (_set(_STORE, trace="File x"), _made_consistent, "tells a failure"),
    "passed, with a failing case": (_set(_STORE, failing=[_FAILING]), _made_consistent, "1 failing cases"),
    "failed, without a failing case": (
        _set(_STORE, status="failed", failure="check", what="x"), _made_consistent, "0 failing cases",
    ),
    "failed otherwise than its cases": (
        _set(_STORE, status="failed", failure="check", what="y", failing=[_FAILING]), _made_consistent, "first failing",
    ),
    "failed in another check's case": (
        _set(_STORE, status="failed", failing=[{**_FAILING, "id": "memory.x[]"}]), _made_consistent, "of one check",
    ),
    "a cause of a check that ran": (_set(_STORE, cause="host"), _made_consistent, "cause"),
    "waived, without a file": (_waived, _made_consistent, "no file"),
    "waived, without a reason": (_waived_without_reason, _made_consistent, "without a reason"),
    "other sums": (_in("summary", "passed", value=999), _summed_again, "summary"),
    "another verdict": (_in("verdict", "word", value="conformant"), _summed_again, "verdict"),
    "another headline": (_in("verdict", "headline", value="conformant to core"), _summed_again, "headline"),
    "a profile of its own": (
        lambda r: r["verdict"]["profiles"][0].update(name="everything"), _summed_again, "does not have",
    ),
    "another suite": (_in("suite", "digest", value="0" * 64), _made_consistent, "other files"),
    "another edition": (_in("suite", "edition", value="1"), _made_consistent, "edition"),
    "another plugin's files": (_in("platform", "digest", value="0" * 64), _made_consistent, "other files"),
    "no plugin's files": (_in("platform", "digest", value=None), _made_consistent, "which files"),
    "another platform": (_another_platform, _made_consistent, "other files"),
    "another version of the plugin": (_in("platform", "version", value="9"), _made_consistent, "version"),
    "a device that was away": (_in("platform", "device_absent", value="away"), _made_consistent, "was absent"),
    "started tomorrow": (_in("run", "started", value="2999-01-01T00:00:00+00:00"), _made_consistent, "not been yet"),
    "started at no time": (_in("run", "started", value="yesterday"), _made_consistent, "no time"),
    "faster than its checks": (_in("run", "seconds", value=0.1), _made_consistent, "took"),
}  # fmt: skip


def test_a_true_report_has_no_problem(report: Report) -> None:
    assert problems_of(report) == []


@pytest.mark.parametrize("name", _FORGERIES)
def test_a_forged_report_is_refused(name: str, report: Report) -> None:
    forge, finish, said = _FORGERIES[name]
    forge(report)
    finish(report)
    problems = problems_of(report)
    assert any(said in problem for problem in problems), problems


@pytest.mark.long
def test_a_failure_told_as_passed_is_found_by_running_it_again(report: Report, tmp_path: Path) -> None:
    report["outcomes"] = [one for one in report["outcomes"] if one["id"] == "packaging.metadata_is_sound"]
    assert reruns(report, 1.0) == []
    report["outcomes"][0]["status"] = "failed"
    (problem,) = reruns(report, 1.0)
    assert "packaging.metadata_is_sound was run again" in problem


@pytest.mark.long
def test_the_command(folder: Path, report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1000")  # a refusal in one line
    command = [sys.executable, "-m", "sglang_platform.conformance", "verify"]
    true = subprocess.run([*command, str(folder)], capture_output=True, text=True, check=False)
    assert (true.returncode, "no contradiction found" in true.stdout) == (0, True), true.stdout + true.stderr
    report["summary"]["passed"] += 1
    (tmp_path / "report.json").write_text(json.dumps(report))
    forged = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (forged.returncode, "its checksum does not fit" in forged.stdout) == (1, True), forged.stdout
    for bad in ('{"schema": 4}', "{", json.dumps({**report, "extra": 1})):
        (tmp_path / "report.json").write_text(bad)
        refused = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, check=False)
        assert (refused.returncode, "is no report" in refused.stderr) == (2, True), refused.stderr
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "report.json").write_text("{")
    many = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (many.returncode, "holds 3 reports" in many.stderr) == (2, True), many.stderr
    share = subprocess.run(
        [*command, str(folder), "--rerun", "0"], capture_output=True, text=True, check=False
    )
    assert (share.returncode, "10%" in share.stderr) == (2, True)


@pytest.mark.parametrize(
    ("kinds", "dtypes", "met"),
    [(["dsa"], ["float8_e4m3fn"], True), (["mla"], ["float8_e4m3fn"], False), (["dsa"], ["float16"], False)],
)
def test_abilities_that_a_check_requires_together_are_looked_for_one_by_one(
    kinds: list[str], dtypes: list[str], met: bool
) -> None:
    check = registered()["memory.dsa_packed_rows_read_back"]
    assert _met(check, {"declares": {"kv_kinds": kinds, "kv_dtypes": dtypes}}) is met
