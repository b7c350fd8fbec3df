"""The record of a hook type agrees with the documentation, and its name and value with SGLang's."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from sglang_platform.core.hooks.types import HookType

PAGE = Path(__file__).parents[4] / "docs" / "hooks.md"


def test_the_page_shows_the_records():
    shown = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and "`fn(" in line]
    assert shown == [f"| {one.name} | `{one.record.signature}` | {one.record.effect} |" for one in HookType]


@pytest.mark.parametrize("type_", HookType)
def test_a_type_is_found_by_its_value_and_pickled_by_its_name(type_):
    assert HookType(type_.record.value) is type_
    assert type_.value == type_.record.value == type_.name.lower()
    assert pickle.loads(pickle.dumps(type_)) is type_
