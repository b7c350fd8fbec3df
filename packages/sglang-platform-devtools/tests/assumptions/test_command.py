"""`sglang-platform host assumptions` on the invented host and on the installed SGLang; the seams of each release."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
from command_runner import WIDE
from typer.testing import CliRunner

from sglang_platform.core.cli.app import app
from sglang_platform.core.hooks import registry
from sglang_platform.core.hooks.patching.engine import HookEngine
from sglang_platform.core.hooks.registry import HookRegistry
from sglang_platform.devtools.assumptions.seam_hooks import seams_of
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
    assert {"layers", "lora", "models", "scheduling"} <= set(re.findall(r"^\s?(\w+)", text, re.MULTILINE))


def test_one_argument_and_its_places() -> None:
    text = run("--host", str(HOST), "--argument", "--enable-lora", "--all")
    assert "self.stream = torch.cuda.Stream()" in text
    assert "torch.cuda.empty_cache()" not in text


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


@pytest.mark.parametrize("release", ["0.5.11", "0.5.18", "0.5.23"])
def test_seams_say_what_they_hook_in_a_release(release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seams = seams_of(release)
    replaced = {one.target for one in seams.hooks if one.replaces}
    assert "sglang.srt.utils.common.get_device_name" in replaced
    assert seams.refused["enable_two_batch_overlap"] == "arguments.only_on_cuda"
    assert len({one.seam for one in seams.hooks}) > 20
    copies = [one for one in seams.hooks if one.seam == "attention.data_parallel"]
    assert [one.replaces for one in copies] == [True]  # AROUND, and never calls the original
    assert ("sgl_kernel.kvcacheio" in seams.stubs) is (release == "0.5.11")
    monkeypatch.setattr(registry, "_engine", HookEngine())
    HookRegistry.apply_hooks()
    assert seams_of(release) == seams  # also where hooks are in force, and another release is installed
    assert HookRegistry.report() == []
    HookRegistry.reset()


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
    survey = survey_of(found, seams_of("0.5.23"))
    told = {(one.module, one.line) for one in survey.sites}
    assert len(expected) > 20
    assert expected <= told
    assert survey.number_of(standing="carried") > 20
    assert not survey.unread
    assert not [one.target for one in survey.missing if one.target.startswith("sglang.")]
