"""The workflow that a vendor's copy begins with: each of its commands exists, takes its options, and does its part."""

from __future__ import annotations

import ast
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from sglang_platform.conformance.cli import app as conformance
from sglang_platform.core.cli.app import app as platform

_SUITE = typer.main.get_command(conformance)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vendor") / "acme"
    done = CliRunner().invoke(platform, ["new", "acme-npu", "--dir", str(folder)])
    assert done.exit_code == 0, done.output
    return folder


@pytest.fixture(scope="module")
def jobs(copy: Path) -> dict[str, Any]:
    workflow = yaml.safe_load((copy / ".github" / "workflows" / "ci.yml").read_text())
    assert workflow[True] == ["push", "pull_request"]  # YAML reads `on` as true
    return workflow["jobs"]  # type: ignore[no-any-return]


def _sessions(copy: Path) -> dict[str, list[list[str]]]:
    """What each nox session runs, word by word; `*session.posargs` as `...`."""
    tree = ast.parse((copy / "noxfile.py").read_text())
    found: dict[str, list[list[str]]] = {}
    for function in tree.body:
        if not isinstance(function, ast.FunctionDef):
            continue
        named: dict[str, ast.Tuple] = {}
        found[function.name] = []
        for statement in function.body:
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Tuple):
                named[ast.unparse(statement.targets[0])] = statement.value
            call = getattr(statement, "value", None)
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "session.run":
                words: list[str] = []
                for one in call.args:
                    inner = one.value if isinstance(one, ast.Starred) else one
                    for word in named[ast.unparse(inner)].elts if ast.unparse(inner) in named else [inner]:
                        constant = word.value if isinstance(word, ast.Constant) else None
                        words.append("..." if isinstance(one, ast.Starred) and not named.get(ast.unparse(inner))
                                     else str(constant or "acme_npu"))  # fmt: skip
                found[function.name].append(words)
    return found


def _taken(words: list[str]) -> None:
    """The command's parser takes the words. Raises click's UsageError where it does not."""
    group, *rest = words
    assert group == "conformance"
    first = rest[0] if rest else ""
    known = _SUITE.commands  # type: ignore[attr-defined]
    command = known.get(first, _SUITE)
    command.make_context(first, rest[1:] if first in known else rest)


def test_every_command_of_the_workflow_exists_and_takes_its_options(copy: Path, jobs: dict[str, Any]) -> None:
    sessions, asked = _sessions(copy), []
    for job in jobs.values():
        for step in job["steps"]:
            for line in (step.get("run") or "").split("&&"):
                words = shlex.split(line)
                if words and Path(words[0]).name == "nox":
                    own, _, given = line.partition(" -- ")
                    for name in shlex.split(own)[2:]:
                        assert name in sessions, name
                        asked.append(name)
                        for command in sessions[name]:
                            if command[:2] == ["sglang-platform", "conformance"]:
                                _taken([w for w in command[1:] if w != "..."] + shlex.split(given))
    assert asked == ["lint", "tests", "wheel", "conformance", "device", "compare"]


@pytest.mark.parametrize(
    "words", ["conformance --platfrm x", "conformance compare a.json", "conformance --host sglang --jnit x"]
)
def test_a_command_that_is_wrong_is_seen(words: str) -> None:
    with pytest.raises(Exception, match=r"[Nn]o such option|Missing (argument|parameter)"):
        _taken(words.split())


def test_the_device_job_runs_there_keeps_its_report_and_compares(jobs: dict[str, Any]) -> None:
    job = jobs["on-the-device"]
    assert job["runs-on"] == ["self-hosted", "acme-npu"]
    uploads = [step for step in job["steps"] if "upload-artifact" in step.get("uses", "")]
    assert [(step["if"], step["with"]["path"]) for step in uploads] == [("always()", "report")]
    (compare,) = [step for step in job["steps"] if "-s compare" in step.get("run", "")]
    assert "hashFiles('baseline/report.json')" in compare["if"]
    assert "pull_request.head.repo" in job["if"]


def test_the_job_without_the_device_is_judged_by_what_needs_none(jobs: dict[str, Any]) -> None:
    runs = [step.get("run", "") for step in jobs["without-the-device"]["steps"]]
    (suite,) = [run for run in runs if "conformance" in run]
    assert "--profile offline" in suite  # by `core` it is incomplete, which is no success
