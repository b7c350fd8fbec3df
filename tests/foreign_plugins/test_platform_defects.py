"""`sglang-platform doctor` on platforms that vendors wrote on SGLang's own classes: broken ones and their healthy twins.

All mistakes of one plugin are planted at once, since a running SGLang is asked each time.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from defect import Defect
from installed_plugin import InstalledPlugin
from platform_defects import DEFECTS

pytestmark = pytest.mark.host

Examined = tuple[InstalledPlugin, list[dict[str, Any]]]
PLUGINS = sorted({one.plugin for one in DEFECTS})
ONE_IN_CI = [PLUGINS[0], *(pytest.param(name, marks=pytest.mark.long) for name in PLUGINS[1:])]
NOTES = {
    "aurora": {"override-missing", "host-use-unclear"},
    "basalt": {"override-missing", "host-use-unclear"},
    "dolomite": {"override-missing", "override-not-called"},
}
"""What is told of a healthy plugin and is no fault: features that it leaves out, what was not looked at, names for older releases."""


@pytest.fixture(scope="module")
def examined(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Examined]:
    """`examined(plugin, state)`: the plugin "healthy", "broken", or "repaired" as the messages say, and its findings."""
    known: dict[tuple[str, str], Examined] = {}

    def examine(name: str, state: str) -> Examined:
        rows = [one for one in DEFECTS if one.plugin == name]
        if state == "repaired" and not any(one.repair for one in rows):
            state = "healthy"
        if (name, state) not in known:
            plugin = InstalledPlugin(name, tmp_path_factory.mktemp(state))
            for row in rows if state != "healthy" else ():
                plugin.edit(*row.planted)
            for row in rows if state == "repaired" else ():
                plugin.edit(*(row.repair or [one.undone for one in reversed(row.planted)]))
            known[name, state] = plugin, plugin.findings()
        return known[name, state]

    return examine


def wrong(findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for one in findings if one["severity"] != "note"]


@pytest.mark.sample(32)
@pytest.mark.parametrize("defect", DEFECTS, ids=lambda one: f"{one.plugin}: {one.name}")
def test_a_defect_is_told_with_its_place_and_its_fix(
    examined: Callable[..., Examined], defect: Defect
) -> None:
    plugin, findings = examined(defect.plugin, "broken")
    assert any(defect.is_told_by(one, plugin) for one in findings), wrong(findings)


@pytest.mark.parametrize("name", ONE_IN_CI)
def test_nothing_else_is_told_of_a_broken_plugin(examined: Callable[..., Examined], name: str) -> None:
    plugin, findings = examined(name, "broken")
    rows = [one for one in DEFECTS if one.plugin == name]
    # "plugin-failed" is the first defect once more, as it ends the load of the plugin.
    others = [one for one in wrong(findings) if one["id"] != "plugin-failed"]
    assert [one for one in others if not any(row.is_told_by(one, plugin) for row in rows)] == []


@pytest.mark.parametrize("name", ONE_IN_CI)
def test_no_finding_names_a_file_of_sglang(examined: Callable[..., Examined], name: str) -> None:
    plugin, findings = examined(name, "broken")
    places = [one["where"] for one in wrong(findings) if one["where"]]
    assert places
    assert all(Path(place).is_relative_to(plugin.folder) for place in places)


@pytest.mark.long
@pytest.mark.parametrize("name", PLUGINS)
def test_the_plugin_is_sound_once_every_fix_is_followed(examined: Callable[..., Examined], name: str) -> None:
    assert wrong(examined(name, "repaired")[1]) == []


@pytest.mark.long
@pytest.mark.parametrize("name", PLUGINS)
def test_nothing_is_wrong_with_the_healthy_twin(examined: Callable[..., Examined], name: str) -> None:
    _, findings = examined(name, "healthy")
    assert wrong(findings) == []
    assert {one["id"] for one in findings} == NOTES[name]
