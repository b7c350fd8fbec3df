"""`sglang-platform host assumptions` on the invented host and on the installed SGLang."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
from command_runner import WIDE
from typer.testing import CliRunner

from sglang_platform.core.cli.app import app
from sglang_platform.devtools.assumptions.survey import survey_of
from sglang_platform.devtools.source.opening import open_host

HOST = Path(__file__).parent / "host"


def run(*arguments: str, status: int = 0, columns: str = WIDE) -> str:
    result = CliRunner().invoke(app, ["host", "assumptions", *arguments], env={"COLUMNS": columns})
    assert result.exit_code == status, result.output
    return result.stdout


def test_the_table_fits_eighty_columns_and_names_each_feature() -> None:
    text = run("--host", str(HOST), columns="80")
    assert all(len(line) <= 80 for line in text.splitlines() if str(HOST)[:20] not in line)
    assert {"layers", "lora"} <= set(re.findall(r"^\s?(\w+)", text, re.MULTILINE))


def test_one_feature_and_its_places() -> None:
    text = run("--host", str(HOST), "--feature", "lora", "--all")
    assert "return torch.cuda.Event()" in text
    assert "card.empty_cache()" not in text


def test_json_has_each_place_with_its_line() -> None:
    (found,) = json.loads(run("--host", str(HOST), "--json"))["hosts"]
    for site in found["sites"]:
        lines = (HOST / "sglang" / site["path"]).read_text().splitlines()
        assert " ".join(lines[site["line"] - 1].split()) == site["text"]
    assert sum(sum(one.values()) for one in found["counts"].values()) == len(found["sites"])


def test_a_host_that_is_none(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["host", "assumptions", "--host", str(tmp_path)], env={"COLUMNS": WIDE})
    assert result.exit_code == 2
    assert "has none of the packages" in result.output


@pytest.mark.long
@pytest.mark.host
def test_the_installed_host_place_by_place() -> None:
    """Every call of `torch.cuda` in the host's LoRA, found with Python's own parser, is in the survey."""
    pytest.importorskip("sglang", reason="SGLang is not installed here")
    found = open_host("installed", {"sglang"})
    part = [name for name in found.served() if name.startswith("sglang.srt.lora.")]
    assert len(part) > 20
    expected = {
        (name, node.lineno)
        for name in part
        for node in ast.walk(ast.parse(found.text(name)))
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("torch.cuda.")
    }
    survey = survey_of(found)
    told = {(one.module, one.line) for one in survey.sites}
    assert len(expected) > 20
    assert expected <= told
    assert not survey.unread
