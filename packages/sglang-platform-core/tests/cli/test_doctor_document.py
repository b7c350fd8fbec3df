"""What scripts rely on: the form of `doctor --json`, the ids, the exit status; and that looking imports nothing."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from sglang_platform.core.doctor.finding import FindingId

OLD = {"sglang.platform_plugins": {"old": "old_plugin:activate"}}


def test_the_document_has_a_schema_and_each_finding_all_fields(command) -> None:
    command.install("old", OLD)
    command.platform("here", "return 'here_cls:Platform'")
    document = command.json("doctor", status=1)
    assert document["schema"] == 1
    assert set(document) == {"schema", "findings"}
    ids = [finding["id"] for finding in document["findings"] if finding["id"] != "plugin-slow"]
    assert ids == ["group-unread", "platform-decided", "sources-unread"]
    for finding in document["findings"]:
        assert set(finding) == {"id", "severity", "what", "plugin", "why", "fix", "where"}
        assert finding["id"] in get_args(FindingId)
    problem = document["findings"][0]
    assert problem["severity"] == "problem"
    assert problem["plugin"] == {"name": "old", "distribution": "old-dist", "version": "1.0"}
    assert problem["why"]
    assert problem["fix"]


def test_people_see_the_id_too(command) -> None:
    command.install("old", OLD)
    assert "is read by nobody [group-unread]" in command("doctor").stdout


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("arguments", "status"), [([], 0), (["--json"], 0), (["--nonsense"], 2), (["--source-only=maybe"], 2)]
)
def test_exit_status_without_a_problem(command, arguments, status) -> None:
    command.platform("here", "return 'here_cls:Platform'")
    assert command("doctor", *arguments).returncode == status


def test_warnings_alone_give_status_0(command) -> None:
    command.install("lost", {"sglang_platform.contract": {"lost": "v1"}})
    findings = command.json("doctor", status=0)["findings"]
    assert [finding["severity"] for finding in findings] == ["warning", "note", "note"]


@pytest.mark.sample(2)
@pytest.mark.parametrize("platform", [None, "example_oot"])
def test_examining_this_very_environment_imports_neither_torch_nor_sglang(
    run_program, monkeypatch, platform
) -> None:
    """With whatever is installed in it; the platform class is read, not imported."""
    if platform is not None:
        monkeypatch.setenv("SGLANG_PLATFORM", platform)
    run = run_program("run_command_lightly.py", "doctor", "--json")
    assert json.loads(run.stdout)["schema"] == 1
