"""Every kit in the installed SGLang is run or left out with a reason; the record of its own device is whole."""

from __future__ import annotations

import ast
import importlib.metadata
import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from sglang_platform.conformance.kits.attention_run import RADIX
from sglang_platform.conformance.kits.baseline import record_of
from sglang_platform.conformance.kits.lessons import STORY, lessons, sentences
from sglang_platform.conformance.kits.scripted_run import SCRIPTED
from sglang_platform.conformance.kits.scripts import SCRIPTS
from sglang_platform.conformance.kits.table import KITS, NOT_APPLICABLE
from sglang_platform.conformance.kits.verdict import KitTest

pytestmark = [
    pytest.mark.host,  # the kits are looked for as submodules, for which SGLang is imported
    pytest.mark.skipif(find_spec("sglang") is None, reason="SGLang is not installed"),
]

_NOT_SERVERS = {"attention_unittest", "unified_radix_cache"}


def _folder() -> Path:
    kits = find_spec("sglang.test.kits")
    assert kits is not None
    return Path(next(iter(kits.submodule_search_locations or ())))


def _record() -> list[KitTest]:
    parts = json.loads(record_of(importlib.metadata.version("sglang")).read_text())
    return [KitTest(*row) for rows in parts.values() for row in rows]


def test_every_kit_of_the_wheel_is_run_or_left_out_with_a_reason() -> None:
    there = {path.stem for path in _folder().iterdir() if not path.stem.startswith("__")}
    run = {kit.module for kit in KITS} | _NOT_SERVERS
    assert there - run - set(NOT_APPLICABLE) == set()
    assert run & set(NOT_APPLICABLE) == set()
    assert all(NOT_APPLICABLE.values())


@pytest.mark.parametrize("kit", KITS, ids=lambda kit: kit.name)
def test_a_kit_names_what_the_wheel_has(kit: object) -> None:
    """A misspelt class would be told as missing in the release, and nobody would see it."""
    from sglang_platform.conformance.kits.table import Kit

    assert isinstance(kit, Kit)
    tree = ast.parse((_folder() / f"{kit.module}.py").read_text())
    defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    assert {*kit.classes, *([kit.function] if kit.function else [])} <= defined


def test_the_record_has_every_kit_and_reasons_for_what_does_not_pass() -> None:
    record = _record()
    assert {one.kit for one in record} >= {kit.name for kit in KITS} | {RADIX, SCRIPTED}
    assert {one.test for one in record if one.kit == SCRIPTED} == {script.__name__ for script in SCRIPTS}
    assert [one for one in record if one.outcome != "passed" and not one.words] == []
    assert "missing" not in {one.outcome for one in record}


def test_no_test_of_a_server_fails_for_want_of_sense() -> None:
    """The taught model answers what kits ask: none of their tests is excused by what a model does not know."""
    servers = {kit.name for kit in KITS}
    failed = [one for one in _record() if one.kit in servers and one.outcome == "failed"]
    assert failed == []


def test_questions_of_the_kits_have_lessons() -> None:
    learnt = {one.question: one for one in lessons(sentences(), '{"type": "object"}')}
    france = [one for one in learnt.values() if one.question.startswith("Q: What is the capital of France?")]
    assert france
    assert all(one.answer.startswith(" Paris") and not one.ends for one in france)
    assert any(one.ends and one.answer.startswith("{") for one in learnt.values())
    assert any(one.answer == STORY for one in learnt.values())
