"""Every command takes a plugin by its entry point or its distribution, and a path where it reads sources."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_runner import WIDE, Command

from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.groups import GENERAL_GROUP, PLATFORM_GROUP
from sglang_platform.core.discovery.kind import DIFFUSION
from sglang_platform.core.discovery.named import known_names, platform_named, plugin_named
from sglang_platform.core.errors import ConfigurationError, PlatformError, PluginNotFound


class Installed:
    """Writes distributions into a folder that comes first on the path."""

    def __init__(self, site: Path) -> None:
        self.site = site

    def distribution(self, name: str, points: dict[str, dict[str, str]], *, modules: str = "") -> None:
        info = self.site / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = [f"[{g}]\n" + "".join(f"{n} = {v}\n" for n, v in e.items()) for g, e in points.items()]
        (info / "entry_points.txt").write_text("\n".join(lines))
        for module in modules.split():
            path = self.site / Path(*module.split("."))
            path.mkdir(parents=True)
            (path / "__init__.py").write_text("raise SystemExit('imported')")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installed]:
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.setattr(sys, "path", [str(site), sysconfig.get_path("stdlib")])
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    scan.invalidate()
    made = Installed(site)
    made.distribution(
        "sglang-acme", {PLATFORM_GROUP: {"acme_npu": "acme.entry:activate"}}, modules="acme acme.entry"
    )
    made.distribution(
        "beryl-tools", {GENERAL_GROUP: {"beryl": "beryl_plugins.start:load"}}, modules="beryl_plugins"
    )
    yield made
    scan.invalidate()


WORDS = ["acme_npu", "sglang-acme", "sglang_acme", "SGLang.Acme"]


@pytest.mark.parametrize("word", WORDS)
def test_a_name_leads_to_its_plugin(installed: Installed, word: str) -> None:
    assert plugin_named(word).distribution == "sglang-acme"
    assert platform_named(word) == "acme_npu"


UNKNOWN = {
    "acme-npu": "did you mean 'acme_npu'?",
    "acne_npu": "did you mean 'acme_npu'?",
    "sglang-acmee": "did you mean 'sglang-acme'?",
    "acme.entry:deactivate": "distributions: beryl-tools, sglang-acme",
    "./acme_npu": "did you mean 'acme_npu'?",
    "": "entry points: acme_npu, beryl",
    "x" * 5000: "entry points: acme_npu, beryl",
}


@pytest.mark.parametrize("word", UNKNOWN)
def test_an_unknown_word_is_compared_with_every_name(installed: Installed, word: str) -> None:
    with pytest.raises(PluginNotFound) as caught:
        plugin_named(word)
    assert UNKNOWN[word] in str(caught.value)
    assert all(name in str(caught.value) for names in known_names().values() for name in names)


def test_a_word_that_names_two_plugins_is_refused(installed: Installed) -> None:
    """An entry point of one, and the distribution of another."""
    installed.distribution("second", {PLATFORM_GROUP: {"beryl-tools": "second_entry:activate"}})
    with pytest.raises(ConfigurationError) as caught:
        plugin_named("beryl-tools")
    assert "'beryl-tools' names 2 plugins" in str(caught.value)
    assert "beryl-tools, second" in str(caught.value)


def test_a_name_that_two_distributions_register_is_for_the_decision(installed: Installed) -> None:
    installed.distribution("copy-of-acme", {PLATFORM_GROUP: {"acme_npu": "copied:activate"}})
    assert platform_named("acme_npu") == "acme_npu"


def test_a_plugin_that_has_no_platform_or_two(installed: Installed) -> None:
    installed.distribution("twins", {PLATFORM_GROUP: {"one": "twins:one", "two": "twins:two"}})
    with pytest.raises(PlatformError, match=r"beryl-tools has no platform of the LLM runtime"):
        platform_named("beryl")
    with pytest.raises(PlatformError, match=r"sglang-acme has no platform of the diffusion runtime"):
        platform_named("acme_npu", DIFFUSION)
    with pytest.raises(PlatformError, match="twins has 2 platforms: one, two"):
        platform_named("twins")
    assert platform_named("two") == "two"


# The commands

COMMANDS = {
    "list": ["list", "{}", "--json"],
    "list --explain": ["list", "--explain", "{}", "--json"],
    "info": ["info", "{}", "--json"],
    "doctor": ["doctor", "{}", "--source-only", "--json"],
    "hooks report": ["hooks", "report", "{}", "--json"],
    "hooks check": ["hooks", "check", "--plugin", "{}", "--host", "host", "--json"],
    "check": ["check", "{}", "--host", "host", "--source-only", "--json"],
    "upgrade": ["upgrade", "{}", "--from", "host", "--to", "host", "--json"],
}
NAMES = ("device", "device-dist")
READ_SOURCES = ("hooks check", "check", "upgrade")


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_both_names(command: Command, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command.platform("device", "return 'device_cls:Platform'")
    command.platform("other", "return None")
    project = command.folder.parent / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text('[project]\nname = "device-dist"\nversion = "1.0"\n')
    (project / "device_plugin.py").write_text("def activate():\n    return 'device_cls:Platform'\n")
    host = command.folder.parent / "host" / "sglang"
    host.mkdir(parents=True)
    (host / "__init__.py").write_text("")
    monkeypatch.chdir(command.folder.parent)
    answers = {}
    for word in (*NAMES, "./project") if name in READ_SOURCES else NAMES:
        run = command(*(one.format(word) for one in COMMANDS[name]))
        assert run.returncode in (0, 1, 3), run.stderr + run.stdout
        answers[word] = json.loads(run.stdout)
        assert "error" not in answers[word], answers[word]
    if name in ("list", "info", "hooks report"):
        assert all(answer == answers["device"] for answer in answers.values())
    assert "other" not in str(answers["device"].get("plugins"))
    unknown = command(*(one.format("devise") for one in COMMANDS[name]))
    assert unknown.returncode == 2
    error = json.loads(unknown.stdout)["error"]
    assert error["what"] == "'devise' names no installed plugin; did you mean 'device'?"
    assert "entry points: device, other" in error["why"]


def test_one_of_the_platforms_of_a_distribution_is_named(command: Command) -> None:
    points = {name: f"{name}_plugin:activate" for name in ("one", "two")}
    command.platform("device", "return 'device_cls:Platform'")
    activate = (
        "from sglang_platform.core import platform_plugin\n\n"
        "@platform_plugin\ndef activate():\n    return 'device_cls:Platform'\n"
    )
    contract = dict.fromkeys(points, "v1")
    command.install(
        "twins",
        {"sglang.srt.platforms": points, "sglang_platform.contract": contract},
        one_plugin=activate,
        two_plugin=activate,
    )
    assert command.json("info", "twins-dist", status=2)["error"]["fix"] == "name one of them"
    assert command.json("info", "two")["platform"]["plugin"] == "two"


def suite(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env={**os.environ, "COLUMNS": WIDE},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.sample(2)
@pytest.mark.parametrize("word", ["example_oot", "sglang-platform-example-oot"])
def test_the_suite_takes_both_names(tmp_path: Path, word: str) -> None:
    check = "packaging.one_platform_is_active"
    run = suite(
        "sglang_platform.conformance", "--platform", word, "--check", check, "--json", folder=tmp_path
    )
    document = json.loads(run.stdout)
    assert document["platform"]["name"] == "example_oot"
    assert [(one["id"], one["status"]) for one in document["outcomes"]] == [(check, "passed")]
    options = ["--platform", word, "--platform-level", "packaging", "--collect-only", "-q"]
    run = suite("pytest", "--pyargs", "sglang_platform.conformance", *options, folder=tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    assert check in run.stdout


def test_the_suite_refuses_an_unknown_word(tmp_path: Path) -> None:
    run = suite("sglang_platform.conformance", "--platform", "exmaple_oot", folder=tmp_path)
    assert run.returncode == 2
    assert "'exmaple_oot' names no installed plugin; did you mean 'example_oot'?" in run.stderr
    run = suite(
        "pytest", "--pyargs", "sglang_platform.conformance", "--platform", "exmaple_oot", folder=tmp_path
    )
    assert run.returncode == 2
    assert "did you mean 'example_oot'?" in run.stderr + run.stdout
