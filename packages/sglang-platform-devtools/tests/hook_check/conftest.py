"""Small hosts, as wheels and as folders, whose modules refuse to be imported."""

from __future__ import annotations

import textwrap
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from sglang_platform.devtools.hook_check.check import CheckedHook, check
from sglang_platform.devtools.registrations import WantedHook
from sglang_platform.devtools.source.opening import open_host

BOMB = "\nraise SystemExit('the host was imported')\n"
"""Ends every module, at a place where no name is bound any more."""

Wheel = Callable[..., Path]
Verdict = Callable[..., CheckedHook]


def write_wheel(path: Path, version: str, modules: Mapping[str, str], entry_points: str = "") -> Path:
    """A wheel of the distribution `host`. Keys are module names; `pkg.__init__` makes a package."""
    path.mkdir(parents=True, exist_ok=True)
    wheel = path / f"host-{version}-py3-none-any.whl"
    info = f"host-{version}.dist-info"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, source in modules.items():
            archive.writestr(name.replace(".", "/") + ".py", textwrap.dedent(source) + BOMB)
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: host\nVersion: {version}\n\nHost: no\n"
        )
        archive.writestr(f"{info}/entry_points.txt", textwrap.dedent(entry_points))
    return wheel


@pytest.fixture
def wheel(tmp_path: Path) -> Wheel:
    """`wheel({"host.mod": source, ...}, version="2", entry_points="")` writes one and gives its path."""

    def make(modules: Mapping[str, str], version: str = "2", entry_points: str = "") -> Path:
        return write_wheel(tmp_path / f"wheel-{version}", version, modules, entry_points)

    return make


@pytest.fixture
def verdict(wheel: Wheel) -> Verdict:
    """`verdict(target, modules)`: the row of one target."""

    def judge(
        target: str | WantedHook,
        modules: Mapping[str, str],
        entry_points: str = "",
    ) -> CheckedHook:
        wanted = WantedHook(target) if isinstance(target, str) else target
        (row,) = check([wanted], open_host(str(wheel(modules, "2", entry_points)), {"host"}))
        return row

    return judge
