"""The usual mistakes of a first day: the first command that can know says cause, place and fix in at most eight lines,
and once the mistake is undone it says no more of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from first_day_mistakes import MISTAKES, Mistake
from installed_plugin import Edit, InstalledPlugin
from steps_of_page import PageCommandLine, steps_of

pytestmark = pytest.mark.host

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs"
NEW = "from sglang_platform.core.cli import main; main()"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the package `acme` as the page leaves it."""
    folder = tmp_path_factory.mktemp("made")
    subprocess.run(
        [sys.executable, "-c", NEW, "new", "acme", "--torch-plugin", "acme_torch"],
        cwd=folder, env=_environment(), check=True, capture_output=True,
    )  # fmt: skip
    for step in steps_of(DOCS / "first_hour.md"):
        if not isinstance(step, PageCommandLine):
            step.apply(folder / "acme")
    return folder


def _environment() -> dict[str, str]:
    path = [str(HERE / "vendors_torch_plugin"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


def _run(plugin: InstalledPlugin, command: tuple[str, ...]) -> tuple[int, str]:
    """The status and both streams, run in the plugin's folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(plugin.folder)
        patch.setenv("PYTHONPATH", _environment()["PYTHONPATH"])
        done = plugin.command(*command, COLUMNS="80")
    return done.returncode, done.stdout + done.stderr


def _block(said: str, first_line: str) -> list[str]:
    """The message: the line at the margin that begins it, with the lines that are indented below."""
    blocks: list[list[str]] = []
    for line in said.splitlines():
        if line.startswith("  ") and blocks:
            blocks[-1].append(line)
        else:
            blocks.append([line])
    found = [one for one in blocks if first_line in _joined(one)]
    assert found, said
    return max(found, key=len)


def _joined(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


_FIRST = {one.kind: one for one in reversed(MISTAKES)}


@pytest.mark.sample(10)
@pytest.mark.parametrize(
    "mistake",
    [
        pytest.param(
            one, id=f"{one.kind}: {one.name}", marks=() if one is _FIRST[one.kind] else pytest.mark.long
        )
        for one in MISTAKES
    ],
)
def test_a_mistake_is_told_in_eight_lines_with_cause_place_and_fix(
    made: Path, tmp_path: Path, mistake: Mistake
) -> None:
    plugin = InstalledPlugin("acme", tmp_path, made)
    plugin.edit(*mistake.edits)
    status, said = _run(plugin, mistake.command)
    assert status == 1, said
    block = _block(said, mistake.first_line)
    told = _joined(block)
    assert len(block) <= 8, "\n".join(block)
    assert [one for one in mistake.says if one not in told] == [], "\n".join(block)
    file, text = mistake.place
    assert f"{file}:{_line(plugin, file, text)}" in told, "\n".join(block)


def _line(plugin: InstalledPlugin, file: str, text: str) -> int:
    lines = (plugin.folder / file).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.mark.parametrize(
    "command",
    [
        ("info", "acme"),
        pytest.param(("check", "."), marks=pytest.mark.long),
        pytest.param(
            ("conformance", "--platform", "acme", "--check", "kernels.op_*[*rms_norm*]"),
            marks=pytest.mark.long,
        ),
    ],
    ids=" ".join,
)
def test_the_package_without_a_mistake_is_sound(made: Path, tmp_path: Path, command: tuple[str, ...]) -> None:
    status, said = _run(InstalledPlugin("acme", tmp_path, made), command)
    assert status == 0, said


def test_each_edit_is_the_mistake_alone(made: Path, tmp_path: Path) -> None:
    """Undone, each leaves the sound package: so following the fix makes the message go away."""
    for at, mistake in enumerate(MISTAKES):
        plugin = InstalledPlugin("acme", tmp_path / str(at), made)
        plugin.edit(*mistake.edits)
        plugin.edit(*(Edit(one.file, one.new, one.old) for one in reversed(mistake.edits)))
        for file in (made / "acme").rglob("*.py"):
            assert (plugin.folder / file.relative_to(made / "acme")).read_text() == file.read_text()


def test_the_page_lists_each_kind_with_the_command_and_the_first_line() -> None:
    text = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    section = text.partition("## Usual mistakes of a first day\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]
    assert [kind for kind, _, _ in rows] == list(dict.fromkeys(one.kind for one in MISTAKES))
    for kind, command, first_line in rows:
        assert command == f"`sglang-platform {' '.join(_FIRST[kind].command[:1])}`"
        assert first_line.strip("`") == _FIRST[kind].first_line
