"""Reports as files: written, found, read and held to the schema."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema

from sglang_platform.conformance.report.badge import badge
from sglang_platform.conformance.report.document import SCHEMA
from sglang_platform.conformance.report.page import page
from sglang_platform.core.errors import ConfigurationError
from sglang_platform.core.installed.files import file_bytes
from sglang_platform.devtools.cli.output_file import write_text

__all__ = ["REPORT_FILES", "find_reports", "read_report", "schema", "write_report"]

_NAME = "report.json"
REPORT_FILES = (_NAME, "report.html", "badge.svg")
_LARGEST = 64 << 20  # bytes; the report of every check has some two million


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a report; the file ships in the wheel."""
    text = files("sglang_platform.conformance.report").joinpath("report.schema.json").read_text("utf-8")
    return json.loads(text)  # type: ignore[no-any-return]


def write_report(document: dict[str, Any], folder: Path) -> list[Path]:
    """`report.json`, `report.html` and `badge.svg` in `folder`, which is made. Returns their paths.

    Raises ConfigurationError where they cannot be written.
    """
    paths = [folder / name for name in REPORT_FILES]
    texts = (json.dumps(document, indent=2) + "\n", page(document), badge(document))
    for path, text in zip(paths, texts, strict=True):
        write_text(path, text)
    return paths


def find_reports(places: Iterable[Path]) -> list[Path]:
    """The files themselves, and every `report.json` below a folder. Raises ConfigurationError where there is none."""
    found: list[Path] = []
    for place in places:
        found += sorted(place.rglob(_NAME)) if place.is_dir() else [place]
    if not found:
        raise ConfigurationError(
            f"no {_NAME} was found", fix="make one: sglang-platform conformance --report DIR"
        )
    return found


def read_report(path: Path) -> dict[str, Any]:
    """A report, or that of a folder. Raises ConfigurationError where it is none, or of another schema."""
    path = path / _NAME if path.is_dir() else path
    try:
        document = json.loads(file_bytes(str(path), _LARGEST).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path} is no report", why=str(error)) from None
    found = document.get("schema") if isinstance(document, dict) else None
    if found != SCHEMA:
        raise ConfigurationError(
            f"{path} is not a report that this version reads",
            why=f"its schema is {found}, this version's is {SCHEMA}",
            fix="make it again with this version, or install the version that made it",
        )
    wrong = next(jsonschema.Draft202012Validator(schema()).iter_errors(document), None)
    if wrong is not None:
        raise ConfigurationError(f"{path} is no report", why=f"at {wrong.json_path}: {wrong.message[:300]}")
    return document  # type: ignore[no-any-return]
