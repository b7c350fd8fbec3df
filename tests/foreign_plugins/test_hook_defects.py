"""`sglang-platform hooks check` on a plugin with hooks on SGLang's own registry: broken, repaired, and its healthy twin."""

from __future__ import annotations

from typing import Any

import pytest
from defect import Defect
from hook_defects import DEFECTS
from installed_plugin import InstalledPlugin

pytestmark = pytest.mark.host


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> tuple[InstalledPlugin, list[dict[str, Any]]]:
    plugin = InstalledPlugin("cobalt", tmp_path_factory.mktemp("broken"))
    for row in DEFECTS:
        plugin.edit(*row.planted)
    return plugin, plugin.hooks()


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda one: one.name)
def test_a_hook_that_fails_is_told(
    broken: tuple[InstalledPlugin, list[dict[str, Any]]], defect: Defect
) -> None:
    plugin, rows = broken
    assert any(defect.is_told_by(one, plugin) for one in rows), rows


def test_no_other_hook_is_told(broken: tuple[InstalledPlugin, list[dict[str, Any]]]) -> None:
    plugin, rows = broken
    problems = [one for one in rows if one["severity"] == "problem"]
    assert [one for one in problems if not any(row.is_told_by(one, plugin) for row in DEFECTS)] == []


def test_the_hooks_are_sound_once_every_message_is_followed(
    broken: tuple[InstalledPlugin, list[dict[str, Any]]],
) -> None:
    plugin, _ = broken
    for row in reversed(DEFECTS):
        plugin.edit(*(row.repair or [one.undone for one in row.planted]))
    assert {one["id"] for one in plugin.hooks()} == {"exists"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "hooks"),
    [
        pytest.param("aurora", 3, marks=pytest.mark.long),
        pytest.param("basalt", 6, marks=pytest.mark.long),
        ("cobalt", 8),
    ],
)
def test_every_hook_of_a_healthy_plugin_is_read_and_fits(tmp_path, name: str, hooks: int) -> None:
    """From decorators, loops, helper functions, and what is written into SGLang's modules; none is left unread."""
    plugin = InstalledPlugin(name, tmp_path)
    rows = plugin.hooks()
    assert sum(one["id"] == "exists" for one in rows) == hooks
    assert [one for one in rows if one["severity"] == "problem"] == []
    text = plugin.command("hooks", "check").stdout
    assert str(plugin.folder) not in "".join(
        line for line in text.splitlines() if "its target is not" in line
    )
    assert "of this project's own packages, without a problem" in text
