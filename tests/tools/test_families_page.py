"""The page of families: its rows are those that the code knows, and it says what differs and what was not run."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

from sglang_platform.conformance.host import architectures
from tools.families.__main__ import write
from tools.families.page import page
from tools.families.record import FAMILIES, PAGE_SIZES, VISION, Point, points
from tools.families.run import Report

PAGE = Path(__file__).parents[2] / "docs" / "families.md"


def _report(point: Point, **more: object) -> dict[str, object]:
    report = Report("acme", point.family.architecture, point.page_size, point.graphs, answers=11)
    report.releases = {"sglang": "0.5.23", "transformers": "5.19.0"}
    report.parts = {"kv_pool": "acme.pools.Pool", "allocator": "sglang.srt.mem_cache.allocator.token.Tokens"}
    report.ops = {"RMSNorm": [7, 0], "TopK": [0, 3]}
    return json.loads(json.dumps({**report.as_dict(), **more}))  # type: ignore[no-any-return]


def _rows(text: str) -> dict[str, list[str]]:
    """Cells after the first, by the first, of the table of families."""
    table = text.partition("\n## ")[0]
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table.splitlines()
        if line[:1] == "|"
    ]
    return {first: rest for first, *rest in cells[2:]}


def test_the_committed_page_has_every_family_at_every_page_size() -> None:
    text = PAGE.read_text()
    rows = _rows(text)
    assert [*rows] == [family.title for family in FAMILIES]
    assert re.findall(r"^## (.+)$", text, re.M) == [*rows]
    for family in FAMILIES:
        asks, *verdicts = rows[family.title]
        assert asks == family.asks
        modes = ["graphs" if point.graphs else "eager" for point in points() if point.family == family]
        for verdict, mode in zip(verdicts, modes, strict=True):
            assert re.fullmatch(rf"(equal|\*\*different\*\*|not run), {mode}", verdict), (
                family.title,
                verdict,
            )


def test_every_family_has_a_checkpoint() -> None:
    known = {
        **architectures.ARCHITECTURES,
        **architectures.HYBRIDS,
        **architectures.OF_OTHER_OPS,
        **architectures.OF_OTHER_ATTENTION,
    }
    assert {family.architecture for family in FAMILIES} <= {*known, VISION}
    assert {family.architecture for family in FAMILIES} >= architectures.OF_OTHER_ATTENTION.keys()


def test_every_pair_of_family_page_size_and_graphs_occurs() -> None:
    found = [(point.family.title, point.page_size, point.graphs) for point in points()]
    for axes in itertools.combinations(range(3), 2):
        every = itertools.product(
            *([[f.title for f in FAMILIES], PAGE_SIZES, (True, False)][axis] for axis in axes)
        )
        assert {tuple(one[axis] for axis in axes) for one in found} == set(every)


def test_the_page_tells_equal_from_different_and_from_not_run() -> None:
    first, second, third, *_ = points()
    text = page(
        [_report(first), _report(second, wrong=["a prompt of 17 tokens: [1], and transformers gives [2]"])]
    )
    (row, *others) = _rows(text).values()
    assert [verdict.partition(",")[0] for verdict in row[1:]] == ["equal", "**different**", "not run"]
    assert all(verdict.startswith("not run") for other in others for verdict in other[1:])
    assert third.family == first.family
    assert "The platform `acme` on sglang 0.5.23, transformers 5.19.0." in text
    assert f"pages of {second.page_size}, eager: a prompt of 17 tokens" in text
    assert "| `RMSNorm` | 7 + 7 | 0 + 0 |" in text
    assert "| `TopK` | 0 + 0 | 3 + 3 |" in text
    assert "| `Pool` | SGLang's `Tokens` | none |" in text


def test_a_page_is_written_from_the_reports_of_all_engines_only(tmp_path: Path) -> None:
    """The reports are not part of a checkout: one family, run in a new one, must not make the others `not run`."""
    for point in points()[:-2]:
        (tmp_path / f"{point.name}.json").write_text(json.dumps(_report(point)))
    output = tmp_path / "families.md"
    output.write_text("as it was")
    assert write(output, tmp_path) == [point.name for point in points()[-2:]]
    assert output.read_text() == "as it was"
    for point in points()[-2:]:
        (tmp_path / f"{point.name}.json").write_text(json.dumps(_report(point)))
    assert write(output, tmp_path) == []
    assert [*_rows(output.read_text())] == [family.title for family in FAMILIES]
