"""The table of releases: complete, honest about what it does not know, and true for the installed one."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import itertools
import logging
from dataclasses import fields
from pathlib import Path

import pytest
from packaging.version import Version

from sglang_platform.core.contract.pool_kinds import KINDS
from sglang_platform.core.errors import HostError
from sglang_platform.core.sglang import versions
from sglang_platform.core.sglang.versions import HostFacts, facts_for, known_releases


def numbers(release: str) -> tuple[int, ...]:
    return Version(release).release


def test_every_fact_begins_with_the_newest_release_and_has_a_history() -> None:
    assert set(versions.TABLE) == {field.name for field in fields(HostFacts)} - {"version"}
    assert facts_for(versions.NEWEST) == HostFacts(versions.NEWEST)


@pytest.mark.parametrize("name", versions.TABLE)
def test_a_history_goes_from_newest_to_oldest_and_repeats_nothing(name: str) -> None:
    newest, before = versions.TABLE[name]
    changed = [numbers(release) for release in before]
    assert changed == sorted(changed, reverse=True)
    assert all(numbers(versions.OLDEST) < release <= numbers(versions.NEWEST) for release in changed)
    values = [newest, *before.values()]
    assert all(later != earlier for later, earlier in itertools.pairwise(values))
    assert versions.since(name) == next(iter(before), versions.OLDEST)


def test_the_known_releases_span_what_is_claimed() -> None:
    releases = [numbers(release) for release in known_releases()]
    assert releases == sorted(releases)
    assert (known_releases()[0], known_releases()[-1]) == (versions.OLDEST, versions.NEWEST)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (
            "0.5.11",
            {"graph_calls": ("can_run", "replay"), "dsa_pool": "NSATokenToKVPool", "asks_pin_memory": False},
        ),
        ("0.5.12.post1", {"dsa_pool": "NSATokenToKVPool", "metadata_halves": False}),
        ("0.5.13", {"graph_calls": ("can_run", "replay"), "asks_quantization_config": True}),
        ("0.5.17", {"asks_pin_memory": True, "capabilities_struct": False}),
        ("0.5.23", {"asks_group_device": True, "takes_none_for_parts": True}),
    ],
)
def test_a_release_is_like_the_last_row_before_it(version: str, expected: dict[str, object]) -> None:
    found = facts_for(version)
    assert {name: getattr(found, name) for name in expected} == expected


def test_a_newer_release_gets_the_newest_facts_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    facts_for.cache_clear()
    with caplog.at_level(logging.WARNING):
        newer = facts_for("0.7.1")
    assert newer.graph_calls == facts_for(versions.NEWEST).graph_calls
    assert "newer than the releases this adapter was written for" in caplog.text
    assert f"served as {versions.NEWEST} is" in caplog.text


def test_an_older_release_is_refused() -> None:
    with pytest.raises(HostError, match="no platform interface"):
        facts_for("0.5.10")


@pytest.mark.host
def test_the_places_named_for_the_installed_release_exist() -> None:
    host = facts_for(importlib.metadata.version("sglang"))
    for place in (host.paged_allocator, host.token_allocator, host.op_class, host.finished_arguments,
                  host.declares_arguments, host.eager_runner):  # fmt: skip
        assert place is not None
        module, _, name = place.partition(":")
        assert name.split(".")[0] in _names_in(module), place
    pools = _names_in("sglang.srt.mem_cache.memory_pool")
    names = {kind.base.partition(":")[2] for kind in KINDS.values()}
    assert names - {"DSATokenToKVPool"} | {host.dsa_pool} <= pools


def _names_in(module: str) -> set[str]:
    """Top-level names, read from the source: the package's own import is heavy."""
    package = importlib.util.find_spec("sglang")
    assert package is not None
    assert package.submodule_search_locations is not None
    path = Path(package.submodule_search_locations[0], *module.split(".")[1:]).with_suffix(".py")
    return {getattr(node, "name", "") for node in ast.parse(path.read_text()).body}
