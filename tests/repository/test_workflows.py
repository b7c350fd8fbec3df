"""The workflows and the sessions of `noxfile.py` name each other."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


NOXFILE = ast.parse((ROOT / "noxfile.py").read_text())


def listed(name: str) -> list[str]:
    """A list of words that the noxfile assigns to this name."""
    for node in NOXFILE.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return list(ast.literal_eval(node.value))
    raise AssertionError(f"noxfile.py assigns no {name}")


def sessions() -> dict[str, str]:
    """The sessions by name, with the parametrised ones by each of their Pythons, and their docstrings."""
    found = {}
    for node in NOXFILE.body:
        if not isinstance(node, ast.FunctionDef):
            continue
        for decorator in node.decorator_list:
            if not ast.unparse(decorator).startswith("nox.session"):
                continue
            words = {one.arg: one.value for one in getattr(decorator, "keywords", [])}
            name = ast.literal_eval(words["name"]) if "name" in words else node.name
            pythons = [f"-{one}" for one in listed("PYTHONS")] if "python" in words else [""]
            found.update({f"{name}{suffix}": ast.get_docstring(node) or "" for suffix in pythons})
    return found


def named_by(workflow: dict[str, Any]) -> set[str]:
    """The sessions that a workflow runs, one for each value of a matrix."""
    found: set[str] = set()
    for job in workflow["jobs"].values():
        matrix = job.get("strategy", {}).get("matrix", {})
        commands = " ".join(step.get("run", "") for step in job["steps"])
        commands = commands.replace(".ci/run", (ROOT / ".ci" / "run").read_text())
        for name, values in matrix.items():
            written = f"${{{{ matrix.{name} }}}}"
            commands = " ".join(commands.replace(written, value) for value in values)
        found |= set(re.findall(r"nox -s ([\w.-]+)", commands))
    return found


def all_named() -> dict[str, set[str]]:
    return {path.name: named_by(yaml.safe_load(path.read_text())) for path in WORKFLOWS}


def test_each_session_of_a_workflow_exists() -> None:
    named = all_named()
    assert named["ci.yml"] == {"tests"}
    assert {"release", "long", "pythons-3.10", "pythons-3.13"} <= named["nightly.yml"]
    for name, ran in named.items():
        assert ran, name
        assert ran <= set(sessions()), name


def test_the_nightly_workflow_runs_the_sessions_of_nightly() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/nightly.yml").read_text())
    assert workflow["jobs"]["session"]["strategy"]["matrix"]["session"] == listed("NIGHTLY")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_who_runs_a_release_has_the_history_that_it_archives(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    for job in workflow["jobs"].values():
        if "release" in named_by({"jobs": {"one": job}}):
            (checkout,) = [one for one in job["steps"] if one.get("uses", "").startswith("actions/checkout")]
            assert checkout["with"]["fetch-depth"] == 0


def test_each_path_of_the_engines_of_ci_exists() -> None:
    assert [path for path in listed("ENGINES_OF_CI") if not (ROOT / path).exists()] == []


def test_each_session_is_run_by_a_workflow_or_told_on_a_page() -> None:
    ran = set.union(*all_named().values())
    pages = " ".join((ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md", "RELEASING.md"))
    for name, docstring in sessions().items():
        assert docstring, f"{name} has no docstring"
        base = name.partition("-3.")[0]
        told = re.search(rf"nox -s {base}\b|`{re.escape(base)}`", pages)
        assert name in ran or told, f"no workflow and no page names the session {name}"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_has_no_right_that_it_does_not_name(path: Path) -> None:
    assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}


def test_each_python_that_is_promised_is_run_by_a_workflow() -> None:
    promised = re.findall(r'requires-python = ">=([\d.]+)"', "".join(p.read_text() for p in pyprojects()))
    assert set(promised) == {"3.10"}
    nightly = yaml.safe_load((ROOT / ".github/workflows/nightly.yml").read_text())
    assert "3.10" in nightly["jobs"]["pythons"]["strategy"]["matrix"]["python"]


def pyprojects() -> list[Path]:
    return [*ROOT.glob("packages/*/pyproject.toml"), ROOT / "conformance" / "pyproject.toml"]
