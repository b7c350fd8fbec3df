"""Core stays small, and a vendor's package holds that vendor's kernels."""

from __future__ import annotations

from pathlib import Path

import pytest
from import_graph import DISTRIBUTIONS
from line_counts import lines_by_room, page

MOST_OF_CORE = 32_200
"""Lines of core's source files, with docstrings, comments and blank lines; rounded up to the next hundred."""


def test_core_stays_small() -> None:
    core = lines_by_room()["core"]
    assert core["all"][0] <= MOST_OF_CORE


@pytest.mark.parametrize("name", ["cuda", "rocm"])
def test_a_vendors_package_holds_its_kernels(name: str) -> None:
    """Those that its hardware shapes; kernels that the packages share stand once in core."""
    package = lines_by_room()[name]
    assert package["all"][0] > 900
    assert package.get("kernels", (0, 0))[1] > 3


def test_rooms_are_counted(tmp_path: Path) -> None:
    for folder in DISTRIBUTIONS.values():
        (tmp_path / folder / "src").mkdir(parents=True)
    hooks = tmp_path / DISTRIBUTIONS["core"] / "src" / "sglang_platform" / "core" / "hooks"
    hooks.mkdir(parents=True)
    (hooks / "__init__.py").write_text("")
    (hooks / "registry.py").write_text("one\ntwo\n")
    (hooks.parent / "errors.py").write_text("three\n")
    counted = lines_by_room(tmp_path)
    assert counted["core"] == {"all": (3, 3), "hooks": (2, 2), "errors": (1, 1)}
    assert "  core/hooks" in page(counted)
