"""Who serves a part: the rule, the variable that overrides it, and its message."""

from __future__ import annotations

import logging

import pytest

from sglang_platform.core.errors import PlatformError
from sglang_platform.core.portable import parts
from sglang_platform.core.portable.parts import (
    PARTS,
    PARTS_VARIABLE,
    HostAlways,
    HostIfImportable,
    Own,
    PartsRule,
)


@pytest.fixture
def in_host(monkeypatch):
    monkeypatch.setattr(parts, "active_host", object)


@pytest.fixture
def rule(monkeypatch):
    monkeypatch.delenv(PARTS_VARIABLE, raising=False)
    rules = dict.fromkeys(PARTS, Own("it is fast"))
    rules |= {
        "attention": HostIfImportable(("no_such_library", "json")),
        "ops": HostIfImportable(("no_such_library",)),
        "graph_runner": HostAlways("it does more"),
    }
    return PartsRule("cuda", rules)


def test_without_a_host_all_parts_are_its_own(rule, monkeypatch):
    monkeypatch.setenv(PARTS_VARIABLE, "host")
    assert all(rule.own(part) for part in PARTS)
    assert "no host" in rule.choose("attention").reason


def test_the_rule_in_a_host(rule, in_host):
    assert {part: rule.own(part) for part in PARTS} == {
        "attention": False,
        "kv_pool": True,
        "allocator": True,
        "ops": True,
        "graph_runner": False,
        "communicator": True,
    }
    assert rule.choose("attention").reason.startswith("json is installed")
    assert rule.choose("ops").reason == "none of no_such_library is installed"


@pytest.mark.parametrize(
    ("setting", "own"),
    [
        ("own", set(PARTS)),
        ("host", set()),
        ("host, attention=own", {"attention"}),
        ("own,graph_runner=host,", set(PARTS) - {"graph_runner"}),
        ("graph_runner=own,graph_runner=auto,host,kv_pool=own", {"kv_pool"}),
    ],
)
def test_the_variable_overrides_it(rule, in_host, monkeypatch, setting, own):
    monkeypatch.setenv(PARTS_VARIABLE, setting)
    assert {part for part in PARTS if rule.own(part)} == own


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("attentoin=own", "did you mean 'attention'"),
        ("attention=won", "did you mean 'own'"),
        ("mine", "write own, host or auto"),
        ("attention=", "neither a part"),
    ],
)
def test_a_setting_that_cannot_be_read(rule, in_host, monkeypatch, setting, says):
    monkeypatch.setenv(PARTS_VARIABLE, setting)
    with pytest.raises(PlatformError, match=says) as caught:
        rule.own("kv_pool")
    assert setting in str(caught.value)


def test_an_answer_is_logged_once_with_its_reason(rule, in_host, monkeypatch, caplog):
    with caplog.at_level(logging.INFO, logger=parts.__name__):
        for _ in range(3):
            rule.own("graph_runner")
        assert caplog.messages == ["cuda: graph_runner is the host's: it does more"]
        monkeypatch.setenv(PARTS_VARIABLE, "own")
        rule.own("graph_runner")
    assert caplog.messages[1:] == [f"cuda: graph_runner is its own: {PARTS_VARIABLE} asks for it"]
