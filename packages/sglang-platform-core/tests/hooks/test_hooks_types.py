"""The record of a hook type agrees with the documentation, and its name and value with SGLang's."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from sglang_platform.core.hooks.registry import HookRegistry
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


def test_a_type_around_the_call_is_what_its_record_makes_of_the_hook(host, monkeypatch):
    """A type that sees the error of a call: only the record differs from AROUND's."""
    flavours = []

    def sees_errors(hook, flavour):
        flavours.append(flavour)

        def around(original, *args, **kwargs):
            try:
                return original(*args, **kwargs)
            except ValueError as error:
                return hook(error, *args, **kwargs)

        return around

    record = HookType.AROUND.record._replace(first="error", as_around=sees_errors)
    monkeypatch.setattr(HookType.AROUND, "record", record)
    host.write(failing="def f(a, b=0):\n    raise ValueError(a)\n")
    HookRegistry.register("failing:f", lambda error, a, b=0: [str(error), a, b], HookType.AROUND)
    HookRegistry.register("failing:f", lambda error: None, HookType.AROUND, required=False)
    HookRegistry.apply_hooks()
    assert host.load("failing").f(1) == ["1", 1, 0]
    assert flavours == ["plain"]
    assert "the error and the target's make 3" in HookRegistry.report()[1]["why"]
