"""What `doctor` finds: each fault with its level, its plugin and its fix."""

from __future__ import annotations

import sys

import pytest

from sglang_platform.core.doctor.discovery import Finding, examine
from sglang_platform.core.doctor.entry_points import target_problem

PLATFORMS = "sglang.srt.platforms"
GENERAL = "sglang.srt.plugins"


@pytest.fixture(autouse=True)
def _core_installed(site, libraries) -> None:
    sys.path.append(str(libraries))  # for the process that asks the plugins
    site.distribution(
        "sglang-platform-core",
        {GENERAL: {"sglang_platform_core": "sglang_platform.core.sglang.start.general_plugin:load"}},
        version="0.1.0",
        requires=('sglang<0.6,>=0.5.11; extra == "sglang"', "packaging"),
    )


def _problems(level: str = "problem") -> list[Finding]:
    return [finding for finding in examine() if finding.severity == level]


def _the(level: str, *words: str) -> Finding:
    """The one finding of this level, which has all of the words."""
    findings = _problems(level)
    assert len(findings) == 1, findings
    text = " ".join(map(str, findings[0]))
    assert [word for word in words if word not in text] == [], text
    return findings[0]


def test_a_sound_installation(site) -> None:
    site.platform("dev")
    site.platform("absent", "raise PlatformUnavailable('no /dev/x')")
    assert _problems() == _problems("warning") == []
    notes = [(finding.plugin.name, finding.what, finding.why) for finding in _problems("note")]
    assert notes == [
        ("dev", "dev (dev-dist 1.0) is the platform: dev_plugin_cls:Platform", None),
        ("absent", "absent declined", "no /dev/x"),
    ]
    assert "dev_plugin_cls" not in sys.modules


@pytest.mark.parametrize(
    ("group", "level", "fix"),
    [
        ("sglang.platform_plugins", "problem", f"move it to '{PLATFORMS}'"),
        ("sglang.plugins", "problem", f"move it to '{GENERAL}'"),
        ("sglang.srt.platform", "problem", f"move it to '{PLATFORMS}'"),
        ("sglang_platform.contracts", "problem", "move it to 'sglang_platform.contract'"),
    ],
)
def test_a_group_that_nobody_reads(site, group, level, fix) -> None:
    site.distribution("dev-dist", {group: {"dev": "dev_plugin:activate"}})
    finding = _the(level, repr(group), "dev = dev_plugin:activate", fix)
    assert finding.plugin.distribution == "dev-dist"


def test_the_groups_of_sglang_itself_are_known(site) -> None:
    site.distribution("dev-dist", {group: {"x": "x:f"} for group in ["sglang.serve_backends", "sglangish"]})
    assert _problems() == _problems("warning") == []


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("gone.module:register", ["module 'gone' does not exist"]),
        ("dev_hooks.gone:register", ["module 'dev_hooks.gone' does not exist"]),
        ("dev_hooks:registre", ["does not define 'registre'", "did you mean 'register'?"]),
        ("dev_hooks", ["names a module"]),
        ("dev_hooks:", ["no object reference"]),
    ],
)
def test_an_entry_point_that_leads_nowhere_is_found_without_an_import(site, value, words) -> None:
    site.module("dev_hooks", "def register(): ...")
    site.distribution("dev-dist", {GENERAL: {"dev": value}})
    finding = _the("problem", "'dev' leads nowhere", value, *words)
    assert finding.fix == "correct it in dev-dist and install that again"
    assert "dev_hooks" not in sys.modules


@pytest.mark.parametrize(
    "source",
    [
        "def register(): ...",
        "async def register(): ...",
        "class register: ...",
        "register = print",
        "register: object = print",
        "import os as register",
        "from os import path as register",
        "from nowhere_to_be_read import *",
        "def __getattr__(name): return print",
        "if True:\n    def register(): ...\nelse:\n    x = 1",
        "try:\n    import nothing\nexcept ImportError:\n    def register(): ...",
        "with open('x') as register: ...",
        "for register in (1, 2): ...",
        "(register, b), c = (1, 2), 3",
        "globals()['register'] = print",
        "syntax error here",
    ],
)
def test_a_name_that_a_module_has_or_may_have_is_no_finding(site, source) -> None:
    site.module("dev_hooks", source)
    assert target_problem("dev_hooks:register") is None


@pytest.mark.parametrize(
    "source", ["", "def f():\n    def register(): ...", "class A:\n    register = 1", "'register'"]
)
def test_a_name_that_a_module_has_not(site, source) -> None:
    site.module("dev_hooks", source)
    assert target_problem("dev_hooks:register") == "the module 'dev_hooks' does not define 'register'"


def test_a_target_in_a_namespace_package_is_found(site) -> None:
    for part in ("one", "two"):
        folder = site.folder / "spaced" / part
        folder.mkdir(parents=True)
        (folder / "plugin.py").write_text("def register(): ...")
    assert target_problem("spaced.two.plugin:register") is None
    assert "'spaced.three'" in target_problem("spaced.three.plugin:register")
    assert "spaced" not in sys.modules


def test_an_extension_module_is_taken_at_its_word() -> None:
    assert target_problem("math:no_such_function") is None


def test_duplicates_of_both_groups(site) -> None:
    site.platform("dev")
    site.distribution(
        "other", {PLATFORMS: {"dev": "dev_plugin:activate"}, GENERAL: {"a": "dev_plugin:activate"}}
    )
    site.distribution("third", {GENERAL: {"a": "dev_plugin:activate"}})
    whats = [finding.what for finding in _problems()]
    assert whats == [f"2 plugins are named 'dev' in {PLATFORMS}", f"2 plugins are named 'a' in {GENERAL}"]


def test_two_active_platforms(site) -> None:
    site.platform("one")
    site.platform("two")
    finding = _the("problem", "2 platforms are active", "one-dist", "two-dist")
    assert finding.fix == "set SGLANG_PLATFORM=one or SGLANG_PLATFORM=two"


def test_a_failing_plugin_is_a_problem_also_where_the_launch_would_go_on(site, monkeypatch) -> None:
    site.platform("bad", "raise RuntimeError('driver gone')")
    _the("problem", "driver gone", "bad-dist")
    from sglang_platform.core.discovery import current

    current.reset()
    monkeypatch.setenv("SGLANG_PLATFORM_ON_ERROR", "warn")
    _the("problem", "bad failed", "driver gone", "bad-dist")


def test_variables_that_cannot_be_used(site, monkeypatch) -> None:
    site.platform("dev")
    monkeypatch.setenv("SGLANG_PLATFORM", "dve")
    _the("problem", "SGLANG_PLATFORM='dve'", "did you mean 'dev'?")


def test_a_contract_version_of_another_core(site) -> None:
    site.platform("future", contract="v99")
    _the("problem", "contract version 99", "speaks version 1", "future-dist")


def test_a_contract_version_for_a_plugin_that_is_not_there(site) -> None:
    site.platform("dev")
    site.distribution("other", {"sglang_platform.contract": {"dev": "v1"}})
    _the("warning", "stated for 'dev'", "there is no such plugin", "other")


def test_unreadable_metadata(site) -> None:
    info = site.distribution("broken", {})
    (info / "entry_points.txt").write_text("[sglang.srt.platforms]\nno equals sign\n")
    _the("problem", "broken-1.0.dist-info", "cannot be read", "no equals sign")


def test_a_hidden_distribution(site) -> None:
    site.platform("dev")
    site.distribution("dev-dist", {PLATFORMS: {"dev": "dev_plugin:activate"}}, version="2.0")
    _the("warning", "dist-info is hidden", "lies beside it and has the same name")


# Filters that hide more than meant


def test_a_filter_that_keeps_core_and_the_platform_out_of_the_host(site, monkeypatch) -> None:
    monkeypatch.setenv("SGLANG_PLUGINS", "mine")
    site.platform("dev")
    site.module("mine_hooks", "def register(): ...")
    site.distribution("mine-dist", {GENERAL: {"mine": "mine_hooks:register"}})
    core, platform = _problems()
    assert "keeps 'sglang_platform_core' out of SGLang" in core.what
    assert "runs no code of this project" in core.why
    assert "hides the platform 'dev' from SGLang" in platform.what
    assert platform.fix == "set SGLANG_PLATFORM=dev, or add dev to SGLANG_PLUGINS"


def test_a_filter_that_names_all_of_them_is_fine(site, monkeypatch) -> None:
    monkeypatch.setenv("SGLANG_PLUGINS", "sglang_platform_core,dev")
    site.platform("dev")
    assert _problems() == _problems("warning") == []


def test_a_named_platform_is_not_hidden_by_the_filter(site, monkeypatch) -> None:
    monkeypatch.setenv("SGLANG_PLUGINS", "sglang_platform_core")
    monkeypatch.setenv("SGLANG_PLATFORM", "dev")
    site.platform("dev")
    assert _problems() == []


def test_a_filter_that_leaves_out_the_active_platform_s_own_hooks(site, monkeypatch) -> None:
    monkeypatch.setenv("SGLANG_PLUGINS", "sglang_platform_core,dev")
    site.platform("dev")
    site.module("dev_hooks", "def register(): ...")
    file = site.folder / "dev_dist-1.0.dist-info" / "entry_points.txt"
    file.write_text(file.read_text() + f"\n[{GENERAL}]\ndev_hooks = dev_hooks:register\n")
    _the(
        "warning",
        "leaves out 'dev_hooks'",
        "belongs to the active platform",
        "add dev_hooks to SGLANG_PLUGINS",
    )


def test_a_filter_with_an_unknown_name(site, monkeypatch) -> None:
    monkeypatch.setenv("SGLANG_PLUGINS", "sglang_platform_core,dve")
    monkeypatch.setenv("SGLANG_PLATFORM", "dev")
    site.platform("dev")
    _the("problem", "names 'dve'", "write 'dev'")


# Versions


@pytest.mark.parametrize(
    ("version", "bad"), [("0.5.10", True), ("0.5.11", False), ("0.5.23", False), ("0.6.0", True)]
)
def test_a_host_outside_core_s_range(site, version, bad) -> None:
    site.distribution("sglang", {}, version=version)
    findings = _problems()
    assert bool(findings) is bad
    if bad:
        assert (
            findings[0].what
            == f"sglang-platform-core 0.1.0 needs sglang<0.6,>=0.5.11, and sglang {version} is installed"
        )
        assert "pip install" in findings[0].fix


def test_a_plugin_made_for_another_core(site) -> None:
    site.platform("dev", requires=("sglang-platform-core==0.2.0", "torch>=2.11"))
    _the(
        "problem", "dev-dist 1.0 needs sglang-platform-core==0.2.0", "sglang-platform-core 0.1.0 is installed"
    )


def test_core_that_is_importable_but_not_installed(site) -> None:
    for file in site.folder.glob("sglang_platform_core*/*"):
        file.unlink()
    _the("problem", "not installed as a distribution", "SGLang cannot find it")


def test_a_finding_is_told_once(site) -> None:
    """The duplicate is found by its own check, and again where the rules refuse it."""
    site.platform("dev")
    site.distribution("other", {PLATFORMS: {"dev": "dev_plugin:activate"}})
    _the("problem", "2 plugins are named 'dev'")
