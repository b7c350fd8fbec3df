"""Every kind of dependency between two small releases: what changed, the line, both signatures, what to write."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_runner import too_wide

from sglang_platform.core.cli.page import Page
from sglang_platform.devtools.cli.output_file import as_html
from sglang_platform.devtools.upgrade.plugin import open_source
from sglang_platform.devtools.upgrade.report import print_upgrade, upgrade_of
from sglang_platform.devtools.upgrade.wheels import open_release

PARTS = Path(__file__).parent / "plugin" / "src" / "vendor" / "parts.py"

EXPECTED = {
    ("import", "moved", "moved"): ("breaks", "from sglang.srt.layers.ops import fused, moved"),
    ("import", "left_out", "gone"): ("look", "from sglang.srt.layers.ops import left_out"),
    ("import", "PAGE", "changed"): ("look", "from sglang.srt.mem.pool import PAGE"),
    ("import", "split", "changed"): None,
    ("override", "store", "changed"): ("breaks", "def store(self, layer, loc, k, v):"),
    ("override", "flush", "gone"): ("breaks", "def flush(self):"),
    ("base", "close", "duty"): ("look", "class Pool(HostBase):"),
    ("field", "release_pages", "gone"): ("breaks", "return self.slots.release_pages"),
    ("field", "old_flag", "gone"): ("breaks", "return args.old_flag"),
    ("unpack", "describe", "changed"): ("breaks", "size, pages = pool.describe()"),
    ("unpack", "alloc", "changed"): ("breaks", "need, free = slots.alloc(4)"),
    ("construct", "Result", "changed"): ("breaks", 'Result("key", 1)'),
    ("call", "helper", "changed"): ("breaks", "helper(1, 2)"),
    ("call", "split", "changed"): ("breaks", "one, two = split(1)"),
    ("call", "fused", "changed"): None,
    ("call", "same", "changed"): None,
    ("environment", "SGLANG_OLD", "gone"): ("breaks", 'os.environ["SGLANG_OLD"]'),
    ("environment", "SGLANG_FLIPPED", "changed"): ("look", 'os.environ["SGLANG_FLIPPED"]'),
    ("environment", "SGLANG_SAME", "changed"): None,
    ("argument", "--old-flag", "gone"): ("breaks", "FLAGS = "),
    ("argument", "--page-size", "gone"): None,
    ("name", "qoq", "gone"): ("breaks", 'if args.quantization == "qoq":'),
    ("hook", "flush", "gone"): ("breaks", '"sglang.srt.mem.pool.Base.flush"'),
    ("hook", "moved", "moved"): ("breaks", '"sglang.srt.layers.ops.moved"'),
    ("hook", "fused", "changed"): None,
    ("patch", "helper", "changed"): ("fits", "pool.helper = instead"),
    ("group", "plugins", "gone"): None,
    ("patch", "sort", "gone"): ("breaks", "pool.sort = instead"),
    ("import", "sort", "gone"): None,  # the patch's row says it
    (
        "hook",
        "sweep",
        "changed",
    ): None,  # it did not fit before either: only the line of the call is another
    ("unpack", "tally", "changed"): ("breaks", "size, pages = tally(slots)"),
    ("unpack", "pair", "changed"): ("fits", "need, free = pair(slots)"),
    ("environment", "SGLANG_FORMER", "changed"): ("look", 'os.environ["SGLANG_FORMER"]'),
    ("base", "peek", "duty"): None,  # the host's own PagedStore leaves it out too
    ("base", "drop", "duty"): None,  # the host's own PagedStore has it
}


@pytest.mark.parametrize("key", EXPECTED, ids=" ".join)
def test_one_dependency(rows, key) -> None:
    expected, row = EXPECTED[key], rows.get(key)
    if expected is None:
        assert row is None
        return
    assert row is not None, sorted(rows)
    assert row.verdict == expected[0]
    assert row.places[0].text.startswith(expected[1]) or expected[1] in row.places[0].text


def test_nothing_else_is_said(rows) -> None:
    assert set(rows) == {key for key, expected in EXPECTED.items() if expected is not None}


def test_both_signatures_and_their_places(rows) -> None:
    row = rows["override", "store", "changed"]
    assert row.old.text == "Base.store(layer, loc, k, v)"
    assert row.new.text == "Base.store(layer, loc_info, k, v, *, scale=...)"
    assert row.old.place.startswith("sglang/srt/mem/pool.py:")
    assert "write def store(layer, loc_info, k, v, *, scale=...)" in row.fix
    assert "pool.store(layer, 1, 2, 3, scale=4)" in row.what


def test_where_it_moved_to(rows) -> None:
    assert rows["import", "moved", "moved"].fix == "write from sglang.srt.layers.elsewhere import moved"


def test_what_a_deprecated_variable_is_called_now(rows) -> None:
    assert "SGLANG_LATTER" in rows["environment", "SGLANG_FORMER", "changed"].fix


def test_a_count_that_the_older_release_does_not_tell(rows) -> None:
    row = rows["unpack", "tally", "changed"]
    assert row.what == "its number of values is 3, and was not told; 2 are taken"


def test_arguments_that_change_places(rows) -> None:
    row = rows["call", "helper", "changed"]
    assert row.what.startswith("its order of parameters is two, one, and was one, two")
    assert row.fix == "call it with (two, one)"


def test_lines_are_those_of_the_file(rows) -> None:
    lines = PARTS.read_text().splitlines()
    places = [one for row in rows.values() for one in row.places if one.file.endswith("parts.py")]
    assert len(places) > 12
    assert all(lines[one.line - 1].strip() == one.text for one in places)


def test_what_is_not_known_is_said(upgrade) -> None:
    assert any("hooks.py" in where and "target" in why for where, why in upgrade.unread)


def test_a_release_and_itself_differ_in_nothing(wheels) -> None:
    same = upgrade_of(
        open_source(str(PARTS.parents[2])), open_release("0.1.0", wheels), open_release("0.1.0", wheels)
    )
    assert same.changes == ()
    assert sum(same.looked.values()) > 30


def test_a_folder_is_read_as_its_wheel(upgrade, wheels) -> None:
    hosts = Path(__file__).parent / "hosts"
    folders = upgrade_of(
        open_source(str(PARTS.parents[2])),
        open_release(str(hosts / "older")),
        open_release(str(hosts / "newer")),
    )
    wanted = [(one.kind, one.target, one.how, one.places) for one in upgrade.changes]
    assert [(one.kind, one.target, one.how, one.places) for one in folders.changes] == wanted


def test_text_fits_80_columns(upgrade, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    print_upgrade(Page(), upgrade, everything=True)
    printed = capsys.readouterr().out
    assert not too_wide(printed)
    assert "Base.flush" in printed
    assert "not looked at" in printed


def test_the_page_has_every_row_and_no_markup_of_others(upgrade) -> None:
    text = as_html(lambda out: print_upgrade(out, upgrade, everything=True))
    assert all(row.target in text for row in upgrade.changes)
    assert "<script" not in text
    assert "http" not in text
    assert all(row.places[0].file in text for row in upgrade.changes)
