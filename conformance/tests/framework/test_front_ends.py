"""The command and pytest give the same verdicts on the same platform."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from sglang_platform.conformance.report.files import schema
from sglang_platform.conformance.report.verify import problems_of

HERE = Path(__file__).parent
GOOD, BAD = "odd=odd_platforms:Talks", "odd=odd_platforms:Raises"


def _command(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
    variables = {name: value for name, value in os.environ.items() if not name.startswith("SGLANG_PLATFORM")}
    return subprocess.run(
        [sys.executable, *arguments],
        env={**variables, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def _conformance(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return _command("-m", "sglang_platform.conformance", *arguments, folder=folder)


CHECK = "contract.factories_answer_with_classes"


def test_the_command_tells_what_to_do_and_writes_a_report(tmp_path: Path) -> None:
    run = _conformance("--platform", BAD, "--check", CHECK, "--report", "out", folder=tmp_path)
    assert run.returncode == 1
    for part in (
        CHECK,
        "no such block size",
        "fix:",
        "again:",
        "odd_platforms.py",
        "not conformant to core: 1 check failed",
        "report.html",
    ):
        assert part in run.stdout, part
    document = json.loads((tmp_path / "out" / "report.json").read_text())
    assert document["summary"]["failed"] == 1
    assert document["platform"]["class"] == "odd_platforms.Raises"
    assert "no such block size" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.long
def test_a_selection_that_passes_ends_with_0_and_a_verdict_that_is_incomplete(tmp_path: Path) -> None:
    import jsonschema

    run = _conformance("--platform", GOOD, "--check", CHECK, "--json", folder=tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    document = json.loads(run.stdout)
    assert document["verdict"]["headline"].startswith("incomplete: ")
    assert "not selected" in document["verdict"]["headline"]
    jsonschema.validate(document, schema())
    assert document["declares"]["kv_kinds"] == ["mha", "mla", "dsa"]


@pytest.mark.long
def test_an_expected_failure_in_the_vendors_file_is_waived_in_the_headline(tmp_path: Path) -> None:
    (tmp_path / "conformance.toml").write_text(f'[expected_failures]\n"{CHECK}" = "our loader, ticket 12"\n')
    run = _conformance(
        "--platform", BAD, "--check", CHECK, "--check", "contract.device_is_named", folder=tmp_path
    )
    assert run.returncode == 3, run.stdout + run.stderr
    assert "our loader, ticket 12" in run.stdout
    assert "; 1 check waived" in run.stdout
    run = _conformance("--platform", GOOD, "--check", CHECK, folder=tmp_path)
    assert run.returncode == 1
    assert "remove" in run.stdout


def test_what_cannot_be_understood_ends_with_2(tmp_path: Path) -> None:
    for arguments, part in (
        (("--check", "contract.device_is_name"), "contract.device_is_named"),
        (("--level", "11"), "8 distributed"),
        (("--host", "vllm"), "sglang"),
        (("--profile", "structred"), "did you mean 'structured'"),
    ):
        run = _conformance("--platform", GOOD, *arguments, folder=tmp_path)
        assert run.returncode == 2, run.stdout
        assert part in run.stderr


def test_pytest_runs_each_check_as_a_test(tmp_path: Path) -> None:
    shutil.copy(HERE / "suite_of_a_vendor.py", tmp_path / "test_mine.py")
    (tmp_path / "conformance.toml").write_text("[expected_failures]\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    run = _command("-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs", ".", folder=tmp_path)
    assert run.returncode == 1
    assert run.stdout.count(f"failed {CHECK}") == 1  # in its block, and in no section of its own
    assert "CAUSES in test_mine.py::TestMyDevice::test_check" in run.stdout
    assert "again:  sglang-platform conformance" in run.stdout
    assert "worker.py" not in run.stdout
    assert "odd: not conformant to core: 1 check failed" in run.stdout
    assert "it runs with --host sglang" in run.stdout
    assert "1 failed, 1 passed, 1 skipped" in run.stdout


@pytest.mark.long
def test_pytest_takes_the_platform_from_its_options(tmp_path: Path) -> None:
    options = ["--platform", GOOD, "--platform-level", "processes"]
    run = _command(
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--pyargs",
        "sglang_platform.conformance",
        *options,
        folder=tmp_path,
    )
    assert run.returncode == 0, run.stdout
    assert " passed" in run.stdout


def test_pytest_without_a_platform_says_so(tmp_path: Path) -> None:
    run = _command(
        "-m",
        "pytest",
        "-q",
        "-rs",
        "-p",
        "no:cacheprovider",
        "--pyargs",
        "sglang_platform.conformance",
        folder=tmp_path,
    )
    assert run.returncode == 0
    assert "name a platform: --platform NAME" in run.stdout


_ALLOCATOR = "lends_every or random_histories or double_free_is_refused"
_PLANTED = ("--pyargs", "sglang_platform.conformance", "--platform", "planted=planted:SlotTwice")


def test_pytest_tells_each_cause_once_over_its_processes_and_writes_the_report(tmp_path: Path) -> None:
    """Each case is a test; two checks stand on the allocator that a third finds wrong."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    options = [
        "-k",
        f"{_ALLOCATOR} or device_is_named",
        "--junit-xml",
        "junit.xml",
        "--platform-report",
        "out",
    ]
    run = _command("-m", "pytest", "-q", "-n", "2", "-rs", *_PLANTED, *options, folder=tmp_path)
    assert run.returncode == 1, run.stdout + run.stderr
    assert run.stdout.count("failed memory.") == 1, run.stdout
    assert "blocks: 2 not run: memory.random_histories_add_up" in run.stdout
    assert "paged allocator fails: see memory.allocator_lends_every_page_once" in run.stdout
    (suite,) = ElementTree.parse(tmp_path / "junit.xml").getroot()
    document = json.loads((tmp_path / "out" / "report.json").read_text())
    (failed,) = [one for one in document["outcomes"] if one["status"] == "failed"]
    assert failed["id"] == "memory.allocator_lends_every_page_once"
    assert len(failed["failing"]) == failed["cases"] == int(suite.get("failures", "0")) > 1
    assert document["verdict"]["headline"] in run.stdout
    assert problems_of(document) == []


@pytest.mark.long
def test_pytest_runs_what_failed_or_one_case_again(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    words = ["-k", _ALLOCATOR, "--platform-report", "first"]
    assert _command("-m", "pytest", "-q", *_PLANTED, *words, folder=tmp_path).returncode == 1
    document = json.loads((tmp_path / "first" / "report.json").read_text())
    (failed,) = [one for one in document["outcomes"] if one["status"] == "failed"]
    case = failed["failing"][1]["id"]
    last = _command("-m", "pytest", "-q", "-x", "--lf", *_PLANTED, folder=tmp_path)
    assert f"again:  sglang-platform conformance --platform {_PLANTED[-1]}" in last.stdout
    assert "1 failed, " in last.stdout
    words = ["--platform-check", case, "--platform-report", "one"]
    alone = _command("-m", "pytest", "-q", *_PLANTED, *words, folder=tmp_path)
    assert "1 failed in " in alone.stdout, alone.stdout
    (outcome,) = json.loads((tmp_path / "one" / "report.json").read_text())["outcomes"]
    assert [one["id"] for one in outcome["failing"]] == [case]


@pytest.mark.long
def test_pytest_holds_to_the_verdict_where_that_is_asked(tmp_path: Path) -> None:
    words = ["--pyargs", "sglang_platform.conformance", "--platform", GOOD, "--platform-check", CHECK]
    run = _command("-m", "pytest", "-q", "-p", "no:cacheprovider", *words, folder=tmp_path)
    assert run.returncode == 0, run.stdout
    assert "odd: incomplete: " in run.stdout
    run = _command(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", *words, "--platform-verdict", folder=tmp_path
    )
    assert run.returncode == 1, run.stdout
    wrong = {"profile": "cor", "level": "11", "check": "memory.no", "model": "none.json"}
    options = [[*words, f"--platform-{option}", value] for option, value in wrong.items()]
    program = f"import pytest\nfor one in {options!r}: print('status', pytest.main(['-q', *one]))"
    run = _command("-c", program, folder=tmp_path)
    assert run.stdout.count("status 2") == len(wrong), run.stdout + run.stderr
    for value in wrong.values():
        assert value in run.stdout + run.stderr
