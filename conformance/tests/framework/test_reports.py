"""Reports: they keep to the published schema, make one self-contained page, can be compared, and make the table."""

from __future__ import annotations

import copy
import json
import os
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from sglang_platform.conformance.check import registered
from sglang_platform.conformance.description import nobody
from sglang_platform.conformance.outcome import Outcome
from sglang_platform.conformance.report.badge import badge
from sglang_platform.conformance.report.compare import compare_reports
from sglang_platform.conformance.report.document import make_document
from sglang_platform.conformance.report.files import find_reports, read_report, schema, write_report
from sglang_platform.conformance.report.page import page
from sglang_platform.conformance.report.support_table import support_table
from sglang_platform.conformance.runner import Selection
from sglang_platform.core.errors import ConfigurationError


def _outcome(name: str, status: Any, **fields: Any) -> Outcome:
    return Outcome(name, name.partition(".")[0], f"{name} holds", status, seconds=0.5, **fields)


def _document(*outcomes: Outcome) -> dict[str, Any]:
    about = nobody("my_device", None, None)
    return make_document(
        Selection("my_device"),
        about,
        outcomes,
        ["core"],
        started=1.8e9,
        command="sglang-platform conformance",
    )


@pytest.fixture
def document() -> dict[str, Any]:
    return _document(
        _outcome("packaging.asking_leaves_the_process_alone", "passed", cases=1),
        _outcome(
            "memory.mha_store_reads_back",
            "failed",
            failure="check",
            what="slot 3 holds <0.5> & nothing else",
            case={"page_size": 16, "dtype": "bfloat16"},
            fix="write row `loc[i]`",
            rerun="sglang-platform conformance --check memory.mha_store_reads_back --seed 0",
        ),
        _outcome("kernels.decode", "blocked", why="see contract.platform_is_created"),
        _outcome("graphs.replay", "expected_failure", what="differs", why="the firmware is old"),
        _outcome("host.engine_starts", "not_run", cause="host", why="it runs with --host sglang"),
    )


def test_a_document_keeps_to_the_published_schema(document: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(document, schema())
    assert document["summary"]["failed"] == 1
    assert document["levels"]["memory"]["failed"] == 1
    assert document["verdict"]["headline"].startswith(
        "not conformant to core: 1 check failed, 1 blocked; 1 check waived"
    )


def test_the_schema_refuses_what_is_no_report(document: dict[str, Any]) -> None:
    for change in ({"host": "vllm"}, {"summary": {}}, {"extra": 1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**document, **change}, schema())


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.outside: list[str] = []
        self.open: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.ids += [values["id"]] if values.get("id") else []
        for name in ("src", "href"):
            if (values.get(name) or "").startswith(("http", "//")):
                self.outside.append(values[name] or "")
        if tag == "script":
            self.outside.append("script")
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, tag
        assert self.open.pop() == tag


def test_the_page_is_well_formed_self_contained_and_leads_with_the_failures(document: dict[str, Any]) -> None:
    text = page(document)
    parser = _Links()
    parser.feed(text)
    assert parser.open == []
    assert parser.outside == []
    assert len(parser.ids) == len(set(parser.ids))
    assert "&lt;0.5&gt; &amp; nothing" in text
    for part in (
        "page_size=16 dtype=bfloat16",
        "write row",
        "--seed 0",
        "the firmware is old",
        "it runs with --host",
    ):
        assert part in text, part
    assert text.index("Failures") < text.index("Not run,") < text.index("All checks")
    assert text.count(document["verdict"]["headline"]) == 2
    assert document["verdict"]["headline"] in badge(document)
    ElementTree.fromstring(badge(document))
    assert not re.search(r"url\(|@import", text)


def test_written_reports_are_found_and_read(document: dict[str, Any], tmp_path: Path) -> None:
    written = write_report(document, tmp_path / "a" / "b")
    assert [path.name for path in written] == ["report.json", "report.html", "badge.svg"]
    (found,) = find_reports([tmp_path])
    assert read_report(found) == document


@pytest.mark.parametrize("text", ["{}", "[]", "no json", '{"schema": 99, "outcomes": []}'])
def test_what_is_no_report_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match="report"):
        read_report(path)


def test_two_reports_are_compared(document: dict[str, Any]) -> None:
    new = copy.deepcopy(document)
    by_id = {one["id"]: one for one in new["outcomes"]}
    by_id["packaging.asking_leaves_the_process_alone"] |= {"status": "failed", "what": "torch is imported"}
    by_id["memory.mha_store_reads_back"] |= {"status": "passed", "what": None}
    new["outcomes"] = [one for one in new["outcomes"] if one["id"] != "host.engine_starts"]
    new["environment"]["packages"]["torch"] = "9.9"
    found = compare_reports(document, new)
    assert {change.id: change.kind for change in found.changes} == {
        "packaging.asking_leaves_the_process_alone": "broken",
        "memory.mha_store_reads_back": "repaired",
        "host.engine_starts": "gone",
    }
    assert found.changes[0].kind == "broken"
    assert found.versions["torch"][1] == "9.9"
    assert found.is_worse
    assert not compare_reports(document, document).changes


def test_the_hardware_table_tells_what_was_and_was_not_shown(document: dict[str, Any]) -> None:
    text = support_table([document])
    row = next(line for line in text.splitlines() if line.startswith("| my_device"))
    assert "1/1" in row  # packaging
    assert "0/1" in row  # memory
    assert row.endswith(f"| {document['verdict']['headline']} |")
    for part in ("slot 3 holds", "the firmware is old", "it runs with --host sglang: `host.engine_starts`"):
        assert part in text, part


def test_the_list_of_checks_names_each(capsys: pytest.CaptureFixture[str]) -> None:
    from sglang_platform.conformance.cli.listing import list_checks

    list_checks(level=["packaging"], as_json=True)
    listed = json.loads(capsys.readouterr().out)
    assert [one["id"] for one in listed] == [name for name in registered() if name.startswith("packaging.")]
    assert all(one["fix"] and one["proves"] for one in listed)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff\xfe{}", "utf-8"),
        (b"[" * 100_000, "recursion"),
        (b"9" * 10_000, "digits"),
        (None, "No such file"),
        ("loop", "symbolic links"),
        ("pipe", "no plain file"),
        (65 << 20, "larger than 64 MiB"),
    ],
)
def test_a_damaged_or_hostile_file_is_no_report(tmp_path, content, words):
    path = tmp_path / "report.json"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, int):
        with path.open("wb") as file:
            file.truncate(content)
    elif content == "loop":
        path.symlink_to(path)
    elif content == "pipe":
        os.mkfifo(path)
    with pytest.raises(ConfigurationError, match=words):
        read_report(path)
