"""The files of a plugin are those that it imports: a project that it carries for others is none of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sglang_platform.devtools.source.opening import package_files


def test_a_project_inside_a_package_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "acme_device"
    for name in (
        "__init__.py",
        "pools.py",
        "kernels/decode.py",
        "around/noxfile.py",
        "around/lib/__init__.py",
    ):
        file = package / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    (package / "around" / "pyproject.toml").write_text("")
    (package / "pyproject.toml").write_text("")  # the package's own, in a flat project
    monkeypatch.syspath_prepend(tmp_path)
    names = [name for name, _ in package_files("acme_device.pools")]
    assert sorted(names) == ["acme_device", "acme_device.kernels.decode", "acme_device.pools"]
