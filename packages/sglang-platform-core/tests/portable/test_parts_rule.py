"""Who serves a part: the rule, the variable that overrides it, and its message."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from sglang_platform.core.errors import PlatformError
from sglang_platform.core.host import PoolAsked
from sglang_platform.core.portable import parts
from sglang_platform.core.portable.parts import (
    PARTS,
    PARTS_VARIABLE,
    Choice,
    HostIfImportable,
    OwnPools,
    PartsRule,
)


@pytest.fixture
def in_host(monkeypatch):
    host = SimpleNamespace(pool_asked=None)
    monkeypatch.setattr(parts, "active_host", lambda: host)
    return host


@pytest.fixture
def rule(monkeypatch):
    monkeypatch.delenv(PARTS_VARIABLE, raising=False)
    rules = dict.fromkeys(PARTS, Choice(True, "it is fast"))
    rules |= {
        "attention": HostIfImportable(("no_such_library", "json")),
        "ops": HostIfImportable(("no_such_library",)),
        "graph_runner": Choice(False, "it does more"),
    }
    return PartsRule("cuda", rules)


def test_without_a_host_all_parts_are_its_own(rule, monkeypatch):
    monkeypatch.setenv(PARTS_VARIABLE, "host")
    # Another test of this process may have loaded one.
    monkeypatch.setattr(parts, "active_host", lambda: None)
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


POOLS = OwnPools(kinds=("mha",), dtypes=("float8_e4m3fn",), reason="one launch", otherwise="as fast")


@pytest.mark.parametrize(
    ("kind", "asked", "own", "says"),
    [
        ("mha", PoolAsked("float8_e4m3fn"), True, "one launch"),
        ("mha", PoolAsked("bfloat16"), False, "as fast"),
        ("mla", PoolAsked("float8_e4m3fn"), False, "as fast"),
        ("mha", None, False, "as fast"),
        ("mha", PoolAsked("float8_e4m3fn", "it is sharded"), False, "it is sharded"),
    ],
)
def test_a_pool_is_its_own_where_that_is_better_and_takes_nothing_away(
    in_host, monkeypatch, caplog, kind, asked, own, says
):
    monkeypatch.delenv(PARTS_VARIABLE, raising=False)
    in_host.pool_asked = asked
    rule = PartsRule("cuda", {**dict.fromkeys(PARTS, Choice(True, "it is fast")), "kv_pool": POOLS})
    with caplog.at_level(logging.DEBUG, logger=parts.__name__):
        choice = rule.choose("kv_pool", kind)
    assert choice == Choice(own, says)
    server = "its own" if own else "the host's"
    assert caplog.messages == [f"cuda: kv_pool ({kind}) is {server}: {says}"]


def test_a_pool_that_the_launch_cannot_use_is_refused_by_name(rule, in_host, monkeypatch):
    monkeypatch.setenv(PARTS_VARIABLE, "own")
    in_host.pool_asked = PoolAsked("bfloat16", "it is sharded")
    with pytest.raises(PlatformError, match="it is sharded") as caught:
        rule.choose("kv_pool", "mha")
    assert "kv_pool=auto" in str(caught.value)
    in_host.pool_asked = PoolAsked("bfloat16")
    assert rule.choose("kv_pool", "mha").own


@pytest.mark.parametrize(("value", "own"), [(None, True), ("0", True), ("1", False), ("true", False)])
def test_a_library_that_is_not_switched_on_serves_nothing(monkeypatch, value, own):
    if value is None:
        monkeypatch.delenv("A_SWITCH", raising=False)
    else:
        monkeypatch.setenv("A_SWITCH", value)
    assert HostIfImportable(("json",), switch="A_SWITCH").choose().own is own


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
        ("attentoin=own", "'attentoin' is neither a part"),
        ("attention=won", "'won' is neither a part"),
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
    with caplog.at_level(logging.DEBUG, logger=parts.__name__):
        for _ in range(3):
            rule.own("graph_runner")
        assert caplog.messages == ["cuda: graph_runner is the host's: it does more"]
        assert caplog.records[0].levelno == logging.DEBUG, "what does not change is no news"
        monkeypatch.setenv(PARTS_VARIABLE, "own")
        rule.own("graph_runner")
    assert caplog.messages[1:] == [f"cuda: graph_runner is its own: {PARTS_VARIABLE} asks for it"]
