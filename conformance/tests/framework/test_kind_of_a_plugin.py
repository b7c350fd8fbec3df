"""A kind of KV pool that a plugin registers is judged as the contract's own are: `docs/examples/deepseek-v4-plugin`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from in_process import outcome

sys.path.insert(0, str(Path(__file__).parents[3] / "docs" / "examples" / "deepseek-v4-plugin" / "src"))

from deepseek_v4_plugin.pool_kind import KIND
from deepseek_v4_plugin.token_pool import V4TokenPool
from test_invented_kind import OF_ANY_KIND

from sglang_platform.conformance.fixtures.pool_kinds import fixture_of
from sglang_platform.conformance.fixtures.pool_kinds.mla import MLAFixture
from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core.contract.pool_kinds import KINDS, PoolKind
from sglang_platform.core.errors import ConfigurationError
from sglang_platform.core.registries import register_pool_kind


class OneLayerOff(V4TokenPool):
    """A defect that only a pool with its layers side by side can have."""

    def _create_rows(self, rows: int) -> None:
        super()._create_rows(rows)
        self.kv_buffer = [self.tokens[:, :1] for _ in range(self.layer_num)]


def platform(pool: type) -> type:
    """Made when the kind is there: its class is checked."""

    class OfThePlugin(ReferencePlatform):
        supported_kv_kinds = (KIND.name,)

        def get_kv_pool_cls(self, *, kind: str) -> type | None:
            return pool if kind == KIND.name else None

    return OfThePlugin


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    before = dict(KINDS)
    register_pool_kind(KIND)
    yield
    KINDS.clear()
    KINDS.update(before)


def test_a_kind_is_tried_as_the_kind_whose_base_it_derives_from() -> None:
    assert type(fixture_of(KIND.name, {})) is MLAFixture


def test_the_vendors_file_names_another_fixture() -> None:
    named = fixture_of(KIND.name, {KIND.name: "invented_kind:LatentFixture"})
    assert named.rows == [(8,), (24,), (512,)]


def test_a_kind_of_which_nothing_is_known_is_refused_with_the_way_out() -> None:
    register_pool_kind(PoolKind(name="other", row="rows", base="builtins:object"))
    with pytest.raises(
        ConfigurationError, match=r"(?s)which rows to try.*\[pool_fixtures\] other = "
    ) as caught:
        fixture_of("other", {})
    assert "object, its base class, derives from that of no kind" in str(caught.value)


@pytest.mark.parametrize("check_id", OF_ANY_KIND)
def test_every_check_of_pools_takes_its_cases(check_id: str) -> None:
    found = outcome(platform(V4TokenPool), check_id)
    # A layer's rows do not lie together, so the pool refuses to list them for transfer engines, which a pool may.
    refuses = check_id == "memory.buffer_infos_describe_the_buffers"
    assert (found.status, found.what) == ("not_applicable" if refuses else "passed", None)
    assert refuses or found.cases > 0


@pytest.mark.long
def test_a_defect_of_its_own_layout_is_found() -> None:
    found = {check_id: outcome(platform(OneLayerOff), check_id).status for check_id in OF_ANY_KIND}
    assert "failed" in found.values()
