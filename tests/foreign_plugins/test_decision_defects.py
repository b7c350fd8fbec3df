"""`info` and `doctor --source-only` on plugins that are not taken: what, where, and the fix, after which they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from decision_defects import DEFECTS, DecisionDefect
from installed_plugin import PLUGINS, InstalledPlugin

pytestmark = pytest.mark.host

Healthy = Callable[[str, tuple[str, ...]], int]


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Healthy:
    """The exit status of a command with the plugin as it is."""
    known: dict[tuple[str, tuple[str, ...]], int] = {}

    def status(name: str, command: tuple[str, ...]) -> int:
        if (name, command) not in known:
            plugin = InstalledPlugin(name, tmp_path_factory.mktemp("healthy"))
            known[name, command] = plugin.command(*command).returncode
        return known[name, command]

    return status


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    "defect",
    [
        pytest.param(one, id=one.name, marks=pytest.mark.long if at % 4 else ())
        for at, one in enumerate(DEFECTS)
    ],
)
def test_a_plugin_that_is_not_taken(tmp_path: Path, healthy: Healthy, defect: DecisionDefect) -> None:
    plugin = InstalledPlugin(defect.plugin, tmp_path)
    plugin.edit(*defect.edits)
    if defect.beside:
        plugin.beside(InstalledPlugin(defect.beside, tmp_path))
    done = plugin.command(*defect.command)
    said = done.stdout + done.stderr
    assert done.returncode == 1 or "warning: " in said, said
    assert [word for word in defect.says if word not in said] == [], said
    if defect.where is not None:
        assert f"{plugin.folder / defect.where.file}:{plugin.line(*defect.where)}" in said, said
    assert "Traceback" not in done.stdout  # SGLang logs one of its own
    if defect.environment:
        assert plugin.command(*defect.command, **dict(defect.environment)).returncode == 0
        return
    plugin.edit(*(one.undone for one in defect.edits))
    for edit in defect.edits:
        assert (plugin.folder / edit.file).read_text() == (PLUGINS / defect.plugin / edit.file).read_text()
    assert healthy(defect.plugin, defect.command) == 0
