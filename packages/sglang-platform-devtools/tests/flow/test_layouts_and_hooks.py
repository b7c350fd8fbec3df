"""Guards across the modules of a plugin, guarded hooks, and the words for what fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from sglang_platform.devtools.changes import read_changes
from sglang_platform.devtools.check.remark import Checked
from sglang_platform.devtools.check.report import checked
from sglang_platform.devtools.source.opening import open_plugin
from sglang_platform.devtools.upgrade.plugin import open_source
from sglang_platform.devtools.upgrade.wheels import open_release

PROJECT = """\
[project]
name = "vendor"
version = "1"
requires-python = ">=3.10"
dependencies = ["sglang"]
[project.entry-points."sglang.srt.plugins"]
vendor = "vendor:register"
"""
COMPAT = """\
import functools
import sglang
from packaging.version import Version

@functools.lru_cache
def is_sglang_ge(v: str) -> bool:
    return Version(sglang.__version__) >= Version(v)

SGLANG_GE_0520 = is_sglang_ge("0.5.20")
"""
NEW = "from sglang.srt.new import x\n\ndef install():\n    from sglang.srt.moved import name_new\n"
HOOKS = """\
from sglang.srt.plugins.hook_registry import HookRegistry
from .compat import is_sglang_ge

def hook(result, *args, **kwargs):
    BODY
    return result

def install():
    GUARD
        HookRegistry.register("sglang.srt.moved.name_new", hook)
"""
OPTIONAL = "try:\n    from sglang.srt.new import x as found\nexcept ImportError:\n    found = None\n"
LAYOUTS = {
    "a module imported under a constant": "from .compat import SGLANG_GE_0520\ndef register():\n    if SGLANG_GE_0520:\n        from . import newer\n        newer.install()",
    "a module imported under a helper": "from . import compat\ndef register():\n    if not compat.is_sglang_ge('0.5.20'):\n        return\n    from .newer import install\n    install()",
    "a module imported by name": "import importlib\nfrom .compat import is_sglang_ge\ndef register():\n    if is_sglang_ge('0.5.20'):\n        importlib.import_module('.newer', __package__)",
    "a module imported in a try": "def register():\n    try:\n        from . import newer\n    except ImportError:\n        return\n    newer.install()",
    "a module imported by the full name": "import vendor.compat\ndef register():\n    if vendor.compat.SGLANG_GE_0520:\n        import vendor.newer as newer",
    "a flag of a try, in another module": "from . import optional\ndef register():\n    if optional.found is not None:\n        from . import newer",
    "names by a star": "from .compat import *\nif SGLANG_GE_0520:\n    from .newer import install\ndef register(): ...",
}  # fmt: skip


def write(folder: Path, **modules: str) -> Path:
    package = folder / "src" / "vendor"
    package.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PROJECT)
    for name, source in {"__init__": "", "compat": COMPAT, **modules}.items():
        (package / f"{name}.py").write_text(source)
    return folder


def check_beside(folder: Path, host: Path) -> Checked:
    return checked(str(folder), open_source(str(folder)), open_release(str(host)), ask=False)


def problems(found: Checked) -> list[tuple[str | None, int | None]]:
    return [(one.file, one.line) for one in found.remarks if one.level == "problem"]


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_module_runs_where_it_is_imported(hosts: dict[str, Path], tmp_path: Path, name: str) -> None:
    plugin = write(tmp_path, __init__=LAYOUTS[name], newer=NEW, optional=OPTIONAL)
    assert problems(check_beside(plugin, hosts["0.5.11"])) == []
    assert problems(check_beside(plugin, hosts["0.5.23"])) == []


def test_a_module_that_is_imported_anyway_is_told(hosts: dict[str, Path], tmp_path: Path) -> None:
    plugin = write(
        tmp_path, __init__="from . import newer\ndef register():\n    newer.install()\n", newer=NEW
    )
    found = check_beside(plugin, hosts["0.5.11"])
    assert problems(found) == [("src/vendor/newer.py", 1), ("src/vendor/newer.py", 4)]
    assert "the import fails when vendor is imported" in (found.remarks[0].why or "")
    assert "the import fails when register() runs" in (found.remarks[1].why or "")


@pytest.mark.parametrize(
    ("guard", "told"),
    [("if is_sglang_ge('0.5.20'):", 0), ("if is_sglang_ge('0.5.1'):", 1), ("for _ in (1,):", 1)],
)
def test_a_hook_is_looked_for_where_it_is_registered(
    hosts: dict[str, Path], tmp_path: Path, guard: str, told: int
) -> None:
    text = HOOKS.replace("GUARD", guard).replace("BODY", "pass")
    plugin = write(tmp_path, __init__="from .hooks import install as register\n", hooks=text)
    found = check_beside(plugin, hosts["0.5.11"])
    assert sum(one.id == "hook-missing" for one in found.remarks) == told
    changes = read_changes(open_plugin(str(plugin)), "vendor", open_release(str(hosts["0.5.11"])))
    assert len(changes.hooks) == told


def test_the_body_of_a_hook_is_told_as_called_later(hosts: dict[str, Path], tmp_path: Path) -> None:
    text = HOOKS.replace("GUARD", "for _ in (1,):").replace("BODY", "import sglang.srt.new")
    plugin = write(tmp_path, __init__="from .hooks import install as register\n", hooks=text)
    found = check_beside(plugin, hosts["0.5.11"])
    assert any("the import fails when hook() runs" in (one.why or "") for one in found.remarks)


def test_what_is_not_known_is_said_in_words(hosts: dict[str, Path], tmp_path: Path) -> None:
    source = "import other\ndef register():\n    if other.has_new():\n        import sglang.srt.new\n"
    found = check_beside(write(tmp_path, __init__=source), hosts["0.5.11"])
    assert problems(found) == []
    (unclear,) = [why for _, why in found.unread if "sglang.srt.new" in why]
    assert "not known: it runs if other.has_new()" in unclear
    assert found.verdict.startswith("incomplete")


def test_stand_ins_of_a_failed_import_are_told(hosts: dict[str, Path], tmp_path: Path) -> None:
    source = "try:\n    from sglang.srt.new import x\nexcept ImportError:\n    def x(): ...\n\ndef register(): ...\n"
    (remark,) = check_beside(write(tmp_path, __init__=source), hosts["0.5.11"]).remarks
    assert (remark.level, remark.line) == ("warning", 2)
    assert "the stand-ins from line 4 on are taken" in (remark.why or "")


def test_a_string_is_not_taken_for_an_import(hosts: dict[str, Path], tmp_path: Path) -> None:
    source = "NAMES = ['sglang.srt.new']\ndef register(): ...\n"
    (remark,) = check_beside(write(tmp_path, __init__=source), hosts["0.5.11"]).remarks
    assert (remark.level, "which a string names" in remark.what) == ("note", True)


def test_calls_and_values_follow_the_guards(hosts: dict[str, Path], tmp_path: Path) -> None:
    body = "def register(): ...\nfrom sglang.srt.moved import same\n{guard}    same(more=1)\n"
    guarded = "import inspect\n" + body.format(guard="if 'more' in inspect.signature(same).parameters:\n")
    bare = body.format(guard="for _ in (1,):\n")
    assert problems(check_beside(write(tmp_path / "a", __init__=guarded), hosts["0.5.11"])) == []
    assert problems(check_beside(write(tmp_path / "b", __init__=bare), hosts["0.5.11"])) == [
        ("src/vendor/__init__.py", 4)
    ]


@pytest.mark.parametrize(
    ("guard", "version", "told"),
    [
        ("if not SGLANG_GE_0520", "0.5.11", [("override-signature", 6), ("override-dead", 7)]),
        ("if SGLANG_GE_0520", "0.5.11", [("override-dead", 7)]),
        ("if SGLANG_GE_0520", "0.5.23", [("override-signature", 6), ("override-signature", 7)]),
    ],
)
def test_overrides_are_compared_with_the_release_that_is_given(
    hosts: dict[str, Path], tmp_path: Path, guard: str, version: str, told: list[tuple[str, int]]
) -> None:
    source = (
        "from sglang.srt.moved import Always\nfrom .compat import SGLANG_GE_0520\ndef register(): ...\n"
        f"class Mine(Always):\n    {guard}:\n        def always(self, more): ...\n    def since_new(self, more): ...\n"
    )
    found = check_beside(write(tmp_path, __init__=source), hosts[version])
    assert [(one.id, one.line) for one in found.remarks if one.part == "couplings"] == told
