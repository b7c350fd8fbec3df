"""`check` on one plugin with guards and without, beside each release of SGLang that is here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sglang_platform.devtools.check.remark import Checked
from sglang_platform.devtools.check.report import checked
from sglang_platform.devtools.source.answers import Absent
from sglang_platform.devtools.upgrade.plugin import open_source
from sglang_platform.devtools.upgrade.release import Release
from sglang_platform.devtools.upgrade.wheels import open_release

# The environment of the release that is in `host` takes SGLang from there.
_PACKAGES = (Path(sys.prefix).parent / "host-matrix").glob("0.*/lib/python3.*/site-packages/sglang")
RELEASES = sorted(package.parent for package in _PACKAGES)

GUARDED = """\
import contextlib
import importlib
import importlib.util

import sglang
import sglang.srt.mem_cache.memory_pool as memory_pool
from packaging.version import Version


def register():
    if Version(sglang.__version__) < Version("0.5.20"):
        from sglang.srt.server_args_config_parser import ConfigArgumentMerger
    else:
        from sglang.srt.arg_groups import attention_hook
    if hasattr(memory_pool, "NSATokenToKVPool"):
        from sglang.srt.mem_cache.memory_pool import NSATokenToKVPool
    with contextlib.suppress(ImportError):
        import sglang.srt.layers.attention.nsa_backend as nsa_backend
    with contextlib.suppress(ImportError):
        importlib.import_module("sglang.srt.arg_groups.boundary_reduction")
    if importlib.util.find_spec("sglang.srt.layers.communicator") is not None:
        from sglang.srt.layers.communicator import LayerCommunicator
"""
TARGETS = (
    "sglang.srt.server_args_config_parser",
    "sglang.srt.arg_groups.attention_hook",
    "sglang.srt.mem_cache.memory_pool.NSATokenToKVPool",
    "sglang.srt.layers.attention.nsa_backend",
    "sglang.srt.arg_groups.boundary_reduction",
    "sglang.srt.layers.communicator",
)
PROJECT = """\
[project]
name = "guarded"
version = "1"
requires-python = ">=3.10"
dependencies = ["sglang", "packaging"]
[project.entry-points."sglang.srt.plugins"]
guarded = "guarded_plugin:register"
"""


def without_guards(source: str) -> str:
    """The same imports, each as a plain statement of `register()`."""
    head, _, body = source.partition("def register():\n")
    lines = [line.strip() for line in body.splitlines()]
    imports = [one for one in lines if one.startswith(("from ", "import ", "importlib.import_module"))]
    return f"{head}def register():\n" + "".join(f"    {one}\n" for one in imports)


def write_plugin(folder: Path, source: str) -> Path:
    package = folder / "src" / "guarded_plugin"
    package.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PROJECT)
    (package / "__init__.py").write_text(source)
    return folder


def check_beside(folder: Path, host: Release) -> Checked:
    return checked(str(folder), open_source(str(folder)), host, ask=False)


@pytest.mark.host
@pytest.mark.parametrize("site", ["installed", *map(str, RELEASES)], ids=lambda one: Path(one).parts[-4:][0])
def test_guards_are_followed_and_what_has_none_is_told(tmp_path: Path, site: str) -> None:
    host = open_release(site)
    missing = {one for one in TARGETS if isinstance(host.find(one), Absent)}
    assert missing

    guarded = check_beside(write_plugin(tmp_path / "guarded", GUARDED), host)
    assert [one for one in guarded.remarks if one.level == "problem"] == []
    assert [why for where, why in guarded.unread if where != "activate()"] == []

    bare = without_guards(GUARDED)
    told = check_beside(write_plugin(tmp_path / "bare", bare), host)
    problems = {one.what.partition(" has no ")[2]: one.line for one in told.remarks if one.level == "problem"}
    assert {
        target for target in TARGETS if any(f"{one}.".startswith(f"{target}.") for one in problems)
    } == missing
    for target, line in problems.items():
        assert line is not None
        assert target.rpartition(".")[2] in bare.splitlines()[line - 1]
