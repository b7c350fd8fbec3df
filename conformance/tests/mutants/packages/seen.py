"""Which judge runs which lines: each is asked once about the healthy packages, and watched.

`seen.py [SORT ...]` writes the record: of all judges, or of `check`, `kernels` or `test` anew.

A judge that fails here is left out: it would kill everything.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from areas import AREAS, LEVELS, ROOT
from asking import ask

__all__ = ["RECORD", "judges_of", "read", "watch"]

RECORD = ROOT / ".nox" / "mutations" / "seen.json"
_SORTS = ("check", "kernels", "test")
_SECONDS = 1800.0
_SHARE = "0/12"
"""Of the cases of a kernel: in the interpreter, watched, all of them take an hour."""

Seen = dict[str, dict[str, Any]]
"""judge -> `seconds`, and `lines` by file, as it stands below the root."""


def all_judges() -> list[list[str]]:
    """Judges of one sort together."""
    from sglang_platform.conformance.check import registered
    from sglang_platform.conformance.kernels.load import declarations, named
    from sglang_platform.conformance.level import Level

    levels = [Level.parse(name) for name in LEVELS]
    checks = [one.id for one in registered().values() if one.level in levels and "none" in one.hosts]
    found = [[f"check:{name}" for name in checks]]
    for pattern in dict.fromkeys(judge for area in AREAS for judge in area.judges):
        sort, _, what = pattern.partition(":")
        if sort == "kernels":
            classes = {"cuda": "CudaSRTPlatform", "rocm": "RocmSRTPlatform"}
            declared = declarations(named(f"sglang_platform.{what}.platform:{classes[what]}").kernels)
            own = f"sglang_platform.{what}."
            found += [[f"kernels:{what}:{one.name}"] for one in declared if one.entry.startswith(own)]
        elif sort == "test":
            found += [[f"test:{path.relative_to(ROOT)}"] for path in sorted(ROOT.glob(what))]
    return found


def watch(sorts: Collection[str]) -> Seen:
    """Asks those of these sorts: all in half an hour on one core."""
    seen: Seen = {}
    for judges in all_judges():
        if judges[0].partition(":")[0] not in sorts:
            continue
        folder = Path(tempfile.mkdtemp(prefix="seen-"))
        variables = {"LINES_SEEN_IN": str(folder), "LINES_SEEN_OF": ":".join(_sources())}
        for answer in ask(judges, variables, seconds=_SECONDS, share=_SHARE):
            one = seen.setdefault(answer.judge, {"seconds": 0.0, "failed": None})
            one["seconds"] += answer.seconds
            one["failed"] = one["failed"] or answer.failed
        for judge in judges:
            if judge in seen:
                name = judge.partition(":")[2]
                place = folder / name if judge.startswith("check:") else folder
                seen[judge]["lines"] = _lines(place)
                print(f"{judge}: {seen[judge]['seconds']:.1f} s {seen[judge]['failed'] or ''}", flush=True)
        shutil.rmtree(folder)
    return seen


def _sources() -> Iterator[str]:
    for name in ("core", "example-oot", "cuda", "rocm"):
        yield f"{ROOT}/packages/sglang-platform-{name}/src/"


def _lines(folder: Path) -> dict[str, list[int]]:
    found: dict[str, set[int]] = {}
    for file in folder.rglob("*.json"):
        for name, lines in json.loads(file.read_text()).items():
            found.setdefault(str(Path(name).relative_to(ROOT)), set()).update(lines)
    return {name: sorted(lines) for name, lines in found.items()}


def read() -> Seen:
    """The record, made where there is none."""
    if not RECORD.exists():
        write(_SORTS)
    return json.loads(RECORD.read_text())  # type: ignore[no-any-return]


def write(sorts: Collection[str]) -> None:
    """Makes the record of judges of these sorts anew."""
    before = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    kept = {judge: one for judge, one in before.items() if judge.partition(":")[0] not in sorts}
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    RECORD.write_text(json.dumps({**kept, **watch(sorts)}))


def judges_of(seen: Seen, file: str, lines: range) -> list[list[str]]:
    """Those that run one of the lines of the file, the quickest first, by sort: checks before tests."""
    mine = [
        judge
        for judge, one in seen.items()
        if one["failed"] is None and any(number in lines for number in one.get("lines", {}).get(file, ()))
    ]
    mine.sort(key=lambda judge: seen[judge]["seconds"])
    by_sort = [[judge for judge in mine if judge.startswith(f"{sort}:")] for sort in _SORTS]
    return [judges for judges in by_sort if judges]


if __name__ == "__main__":
    write(sys.argv[1:] or _SORTS)
