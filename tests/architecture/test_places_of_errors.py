"""One rule says which line of a plugin an error belongs to: `core.correction`. No other file reads places of frames."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from findings import refuse
from import_graph import DISTRIBUTIONS, ROOT

READS = {"tb_lineno", "f_lineno", "extract_tb", "extract_stack", "getinnerframes", "format_tb", "co_filename"}
OTHERS = {
    "core/correction.py": "the rule",
    "core/errors.py": "the place of an error that went through no plugin's code",
    "core/contract/checks.py": "the class statement, by the rule's `is_plugins`",
    "core/contract/source.py": "a function's own place, by the rule's `is_plugins`",
    "core/discovery/trace.py": "who asked for the platform, in no fix",
    "devtools/written.py": "a function's own place, by the rule's `is_plugins`",
    "conformance/blame.py": "whether the suite failed itself, told to its authors",
    "conformance/failing_case.py": "the trace of a failing case",
    "conformance/fixtures/attention_rows.py": "the place of a row that is a check of the suite",
    "conformance/kits/attention_run.py": "where a test of SGLang's failed, in SGLang's words",
    "conformance/probes/activation.py": "which package imports a module",
    "conformance/probes/platform_import.py": "where a plugin reads the environment",
}


def _reads(text: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and node.attr in READS:
            yield node.lineno, ast.unparse(node)


def _found() -> Iterator[tuple[str, int, str]]:
    for name in ("core", "devtools", "conformance"):
        source = ROOT / DISTRIBUTIONS[name] / "src/sglang_platform"
        for path in sorted(source.rglob("*.py")):
            for line, text in _reads(path.read_text(encoding="utf-8")):
                yield path.relative_to(source).as_posix(), line, text


def test_places_of_errors_come_from_one_rule() -> None:
    found = [f"{path}:{line}: {text}" for path, line, text in _found() if path not in OTHERS]
    refuse(found, "ask core.correction for the plugin's line that an error belongs to")


def test_no_exception_is_left_over() -> None:
    assert set(OTHERS) <= {path for path, _, _ in _found()}


@pytest.mark.parametrize(
    "text", ["frame.f_lineno", "traceback.extract_tb(error.__traceback__)", "f.f_code.co_filename"]
)
def test_a_read_place_is_seen(text: str, tmp_path: Path) -> None:
    assert len(list(_reads(text))) == 1
