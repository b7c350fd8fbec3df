"""Digests that tie a report to the suite that made it, to the plugin that was checked, and to its own text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sglang_platform.core.installed.modules import find_module
from sglang_platform.devtools.source.opening import package_of

__all__ = ["checksum", "file_digest", "plugin_digest", "suite_digest"]

_SUITE = "sglang_platform.conformance"
_BUILT = {".so", ".pyc", ".pyd", ".o"}
"""Made on the machine from what is digested."""


def suite_digest() -> str:
    """Of all files of the installed suite."""
    spec = find_spec(_SUITE)
    assert spec is not None
    assert spec.origin is not None
    return _of([Path(spec.origin).parent])


def plugin_digest(platform: Mapping[str, Any]) -> str | None:
    """Of the package that a report's `platform` names: Python files, kernels, data. None where it is not to be found.

    The same for a wheel and for the sources that it was built from.
    """
    place = platform["location"] or platform["entry_point"] or ""
    module = place.partition(":")[0].strip()
    found = find_module(package_of(module)) if module else None
    if found is None:
        return None
    return _of(map(Path, found.search_path or ([found.origin] if found.origin else ())))


def file_digest(path: Path) -> str | None:
    """Of one file; None where it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def checksum(document: Mapping[str, Any]) -> str:
    """Of everything else in a report. It has no key: whoever edits a report can compute it again."""
    rest = {name: value for name, value in document.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _of(places: Iterable[Path]) -> str:
    found: dict[str, Path] = {}
    for place in places:
        inside = place.rglob("*") if place.is_dir() else [place]
        found |= {
            f"{place.name}/{path.relative_to(place).as_posix()}": path for path in inside if path.is_file()
        }
    total = hashlib.sha256()
    for name, path in sorted(found.items()):
        if path.suffix not in _BUILT and "__pycache__" not in path.parts:
            total.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()
