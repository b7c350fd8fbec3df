"""The commands of `docs/conformance.md`: every one is understood, and the examples are run in their order.

In an example a comment is the exit status; without one it is 0. `my_device` is the example device, and
`my_broken_device` a platform with a factory that raises.
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
import typer
from commands import BAD, conformance

from sglang_platform.conformance.check import registered
from sglang_platform.conformance.cli import app
from sglang_platform.conformance.expected import read_vendor_file

TEXT = (Path(__file__).parents[3] / "docs" / "conformance.md").read_text(encoding="utf-8")
_SUITE = typer.main.get_command(app)


def _section(title: str) -> str:
    (found,) = re.findall(rf"^## {title}\n(.*?)(?=^## )", TEXT, re.MULTILINE | re.DOTALL)
    return str(found)


def _lines(text: str) -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.startswith("sglang-platform")]


def test_every_option_of_the_command_is_in_the_table_and_has_an_example() -> None:
    table = set(re.findall(r"^\| `(-[\w-]+)", TEXT, re.MULTILINE))
    options = {one.opts[0] for one in _SUITE.params if one.opts[0] not in ("--help",)}
    assert table == options
    shown = " ".join(_lines(TEXT))
    never = {name for name in options if not re.search(rf"{name}\b", shown)}
    assert never <= {"--profile", "--thorough", "--resume", "--config", "--json"}


@pytest.mark.parametrize("line", _lines(TEXT))
def test_every_command_is_understood(line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    assert words.pop(0) == "conformance"
    known = _SUITE.commands  # type: ignore[attr-defined]
    first = words[0] if words else ""
    command = known.get(first, _SUITE)
    command.make_context(first or "conformance", words[1:] if first in known else words)


@pytest.mark.long
def test_the_examples_do_what_they_say(tmp_path: Path) -> None:
    shutil.copy(Path(__file__).parent / "models" / "acme-odd.json", tmp_path / "config.json")
    devices = {"my_device": "example_oot", "my_broken_device": BAD}
    for line in _lines(_section("Options by example")):
        command, _, status = line.partition(" # ")
        words = [devices.get(word, word) for word in shlex.split(command)[2:]]
        run = conformance(*words, folder=tmp_path)
        wanted = int(status or 0)
        assert run.returncode == wanted, f"{line}\n{run.stdout}{run.stderr}"
    for name in ("one.xml", "whole.xml", "whole/report.html", "own/badge.svg"):
        assert (tmp_path / name).exists(), name


def test_the_vendors_file_of_the_page_is_read(tmp_path: Path) -> None:
    (text,) = re.findall(r"^```toml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    path = tmp_path / "conformance.toml"
    path.write_text(text)
    file = read_vendor_file(path, list(registered()))
    assert len(file.expectations) == 3
    assert [one.factor for one in file.tolerances] == [1.5]
