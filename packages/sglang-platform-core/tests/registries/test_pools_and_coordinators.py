"""Pool factories: the first that matches. Coordinators: by name, with help for a wrong one."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglang_platform.core.contract.pool_kinds import KINDS, KV_POOL_KINDS
from sglang_platform.core.contract.types import kv_pool_kind
from sglang_platform.core.errors import ContractError
from sglang_platform.core.registries import (
    create_coordinator,
    pools,
    register_host_pool_factory,
    register_kv_pool_factory,
    register_pool_kind,
    register_request_coordinator,
)
from sglang_platform.core.registries.coordinators import COORDINATORS_VARIABLE, wanted_coordinators
from sglang_platform.core.registries.registry import RegistryError


def test_first_match_in_priority_order() -> None:
    def is_v4(model_config: Any, server_args: Any) -> bool:
        return model_config.architecture == "V4"

    register_kv_pool_factory("any", lambda m, s: True, lambda kind: int, priority=50)
    register_kv_pool_factory("v4", is_v4, lambda kind: float if kind == "mla" else None, priority=10)
    found = pools.resolve_kv_pool_factory(SimpleNamespace(architecture="V4"), None)
    assert found is not None
    assert found[0] == "v4"
    assert found[1]("mla") is float
    assert found[1]("mha") is None
    other = pools.resolve_kv_pool_factory(SimpleNamespace(architecture="Llama"), None)
    assert other is not None
    assert other[0] == "any"


@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 3), st.booleans()), unique_by=lambda t: t[0])
)
def test_resolution_is_the_least_of_those_that_match(rows: list[tuple[str, int, bool]]) -> None:
    pools.host_pool_factories.clear()
    for id, priority, matches in rows:
        register_host_pool_factory(
            id, lambda m, s, matches=matches: matches, lambda pool, build: build(), priority
        )
    matching = sorted((priority, id) for id, priority, matches in rows if matches)
    found = pools.resolve_host_pool_factory(None, None)
    assert (found[0] if found else None) == (matching[0][1] if matching else None)


def test_a_plugins_kind_of_pool_is_one_of_the_contracts(monkeypatch: pytest.MonkeyPatch) -> None:
    own = replace(KINDS["mla"], name="tokens", row="all layers of a token", older_names=("toks",))
    monkeypatch.setitem(KINDS, own.name, own)  # taken out again afterwards
    del KINDS[own.name]
    register_pool_kind(own)
    register_pool_kind(own)
    assert [kv_pool_kind(name) for name in ("tokens", "toks")] == ["tokens", "tokens"]
    assert "tokens" in KV_POOL_KINDS
    for taken, name in (
        (replace(own, row="another"), "tokens"),
        (replace(own, name="nsa"), "nsa"),
        (replace(own, name="x", older_names=("mla",)), "mla"),
    ):
        with pytest.raises(ContractError, match=f"two kinds of KV pool are called '{name}'"):
            register_pool_kind(taken)
    assert set(KV_POOL_KINDS) == {"mha", "mla", "dsa", "tokens"}


def test_coordinators_are_made_by_name() -> None:
    register_request_coordinator("counter", lambda scheduler, **options: (scheduler, options))
    assert create_coordinator("counter", scheduler="s", limit=3) == ("s", {"limit": 3})


def test_an_unknown_coordinator_says_which_there_are_and_who_would_bring_it() -> None:
    register_request_coordinator("counter", dict)
    with pytest.raises(RegistryError, match="did you mean 'counter'") as caught:
        create_coordinator("countr")
    assert "known: counter" in str(caught.value)
    from sglang_platform.core.registries import coordinators

    coordinators.CREATED_BY["v4"] = "my_models.v4"
    with pytest.raises(RegistryError, match=r"importing my_models\.v4 would register it"):
        create_coordinator("v4")


def test_wanted_are_the_operators_then_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
    model = type("Model", (), {"request_coordinator": "v4"})
    assert wanted_coordinators(model) == ("v4",)
    monkeypatch.setenv(COORDINATORS_VARIABLE, "counter, v4,")
    assert wanted_coordinators(model) == ("counter", "v4")
    assert wanted_coordinators(None) == ("counter", "v4")


def test_who_waits_for_the_first_entry_is_called_once() -> None:
    calls: list[str] = []
    pools.host_pool_factories.when_first_added(lambda: calls.append("early"))
    assert calls == []
    register_host_pool_factory("one", lambda m, s: True, lambda pool, build: None)
    register_host_pool_factory("two", lambda m, s: True, lambda pool, build: None)
    assert calls == ["early"]
    pools.host_pool_factories.when_first_added(lambda: calls.append("late"))
    assert calls == ["early", "late"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"name": ""}, "name is '', no identifier"),
        ({"older_names": ("acme kind",)}, "older_names holds 'acme kind', no identifier"),
        ({"base": "not a place"}, "base is 'not a place', no `package.module:name`"),
        ({"host_class": "acme.pools"}, "host_class is 'acme.pools', no `package.module:name`"),
    ],
)
def test_a_kinds_record_that_cannot_be_used_is_refused(changed: dict[str, Any], words: str) -> None:
    before = dict(KINDS)
    row = replace(KINDS["mha"], **{"name": "acme_rows", **changed})
    with pytest.raises(ContractError, match="cannot be used") as caught:
        register_pool_kind(row)
    assert words in str(caught.value)
    with pytest.raises(TypeError, match=r"takes a PoolKind, got \{"):
        register_pool_kind({"name": "acme_rows"})  # type: ignore[arg-type]
    assert before == KINDS
