"""Every word of the contract that a platform declares or overrides has a check, or a reason why it has none."""

from __future__ import annotations

import dataclasses
import re
from importlib.resources import files
from pathlib import Path
from unittest import mock

import tomllib

from sglang_platform.conformance.check import registered
from sglang_platform.conformance.fixtures.attention_features import FEATURES
from sglang_platform.conformance.fixtures.communicator_collectives import collectives_of_a_communicator
from sglang_platform.core.contract import DeviceMixin, PlatformCapabilities, SRTPlatform, public_names
from sglang_platform.core.contract.pool_kinds import KV_POOL_KINDS
from sglang_platform.core.distributed.communicator import COLLECTIVES

TABLE = tomllib.loads((Path(__file__).parent / "declared_words.toml").read_text())
SUITE = "\n".join(
    path.read_text() for path in sorted(Path(str(files("sglang_platform.conformance"))).rglob("*.py"))
)


def test_every_method_and_attribute_of_the_contract_is_judged_or_has_a_reason() -> None:
    words = public_names(SRTPlatform) | public_names(DeviceMixin)
    left = {word for word in words if word not in SUITE} - set(TABLE["not_judged"])
    assert left == set()


def test_every_capability_is_judged_or_has_a_reason() -> None:
    names = {field.name for field in dataclasses.fields(PlatformCapabilities)}
    known = set(TABLE["capabilities"]) | set(TABLE["not_judged"])
    assert names - known == set()
    assert set(TABLE["capabilities"]) <= names


def test_every_attention_feature_is_judged_or_has_a_reason() -> None:
    for row in FEATURES.values():
        assert row.otherwise or f"kernels.{row.check}" in registered(), row.name


def test_every_kind_and_every_collective_is_judged() -> None:
    assert [kind for kind in KV_POOL_KINDS if f'"{kind}"' not in SUITE] == []
    judged = " ".join(collectives_of_a_communicator(mock.MagicMock()))
    assert [name for name in COLLECTIVES if not re.search(rf"\b{name}\b", judged)] == []


def test_the_table_names_checks_that_exist_and_words_that_nothing_judges() -> None:
    known = registered()
    for word, checks in TABLE["capabilities"].items():
        assert checks, word
        assert [name for name in checks if name not in known] == [], word
    for word, reason in TABLE["not_judged"].items():
        assert len(reason) > 20, f"{word} has no reason"
    stale = {word for word in TABLE["not_judged"] if word in SUITE}
    assert stale == set()
