"""The page of whose parts serve: it is what the rules of the packages say now, and no feature is left out."""

from __future__ import annotations

from pathlib import Path
from pkgutil import resolve_name

import pytest

from sglang_platform.conformance.host.features.record import all_features
from sglang_platform.core.host import PoolAsked
from sglang_platform.core.portable.parts import PARTS
from tools.whose_parts.__main__ import main
from tools.whose_parts.page import RULES, served_by
from tools.whose_parts.rows import NONE, ROWS

pytest.importorskip("sglang_platform.cuda", reason="the package for NVIDIA GPUs is not installed")
pytest.importorskip("sglang_platform.rocm", reason="the package for AMD GPUs is not installed")

PAGE = Path(__file__).parents[2] / "docs" / "parts.md"


def test_the_page_is_what_the_rules_say_now(tmp_path: Path) -> None:
    main(["--output", str(tmp_path / "parts.md")])
    assert (tmp_path / "parts.md").read_text() == PAGE.read_text(), (
        "docs/parts.md is stale: python -m tools.whose_parts --output docs/parts.md"
    )


def test_every_feature_of_the_suite_has_a_row_and_every_row_is_of_a_feature() -> None:
    covered = {name for row in ROWS for name in row.covers}
    assert covered == {record.name for record in all_features()}


def test_every_part_has_a_row_and_none_stands_twice() -> None:
    assert {row.part for row in ROWS} == {*PARTS, NONE}
    named = [(row.feature, row.part) for row in ROWS]
    assert len(named) == len(set(named))


@pytest.mark.parametrize("place", RULES.values())
def test_a_pool_that_the_launch_cannot_use_is_never_ours(place: str) -> None:
    rule = resolve_name(place)["kv_pool"]
    for row in ROWS:
        assert (row.pool is not None) == (row.part == "kv_pool"), row.feature
        if row.pool is not None:
            refused = bool(row.pool[1].only_the_hosts)
            assert refused == (row.asked == "refused by name"), row.feature
            assert not refused or served_by(row, rule) == "SGLang's", row.feature
    assert rule.choose("mha", PoolAsked("float8_e5m2")).own
