"""The documentation tool `griffe` on the same truth as `measure.py`: as it is, with help, and as a reader alone.

`griffe` knows no plugin. It gets the couplings from the marks of `plugin/`, and is asked for the name that each stands
for. Three ways:

- as it is: `griffe.load` of the wheel and `griffe.find_breaking_changes`;
- helped: the same with an `__init__.py` in each folder of the wheel, and with every object declared public;
- as a reader: griffe's objects in place of syntax trees, compared by existence, kind and parameters.

Needs griffe alone, in an environment of its own:

    python benchmarks/upgrade/with_griffe.py --wheels FOLDER [--step 0.5.16] [--json FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import logging
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import griffe
from make_truth import RELEASES, TABLE, Marked, marked_lines

DEFAULTS = {griffe.BreakageKind.PARAMETER_CHANGED_DEFAULT, griffe.BreakageKind.RETURN_CHANGED_TYPE}
"""Kinds of breaking changes that neither the truth nor our report counts; griffe's rows of them are left out."""
READ = {"import", "field", "call", "construct", "override", "hook", "patch", "base"}
"""Kinds of couplings that lead to an object. The others are texts in tables, and lengths of tuples returned."""

Said = tuple[str, int, str, str]
"""File, line, kind, and for an import its name, as in `measure.py`."""


class Wheel:
    """A release as griffe loads it."""

    def __init__(self, version: str, wheels: Path, *, helped: bool) -> None:
        found = next(iter(wheels.glob(f"sglang-{version}-*.whl")))
        self._folder = tempfile.TemporaryDirectory()
        root = Path(self._folder.name)
        with zipfile.ZipFile(found) as archive:
            archive.extractall(root, [one for one in archive.namelist() if one.endswith(".py")])
        if helped:
            for folder in {path.parent for path in (root / "sglang").rglob("*.py")}:
                while folder != root:
                    (folder / "__init__.py").touch()
                    folder = folder.parent
        began = time.process_time()
        loader = griffe.GriffeLoader(search_paths=[root], allow_inspection=False)
        self.package = loader.load("sglang", try_relative_path=False)
        loader.resolve_aliases(implicit=True, external=False)
        self.seconds = time.process_time() - began
        self.modules = sum(1 for one in objects(self.package) if one.is_module)
        self.files = sum(1 for _ in (root / "sglang").rglob("*.py"))
        if helped:
            for one in objects(self.package):
                one.public = True

    def object(self, marked: Marked) -> Any:
        """The object that a coupling names, through aliases and bases; None where griffe has none."""
        names = marked.name.split("|")
        for place, where in enumerate(marked.where.split("|")):
            file = where.partition(" ")[0].partition(";")[0]
            module = file.removesuffix(".py").replace("/", ".")
            name = names[min(place, len(names) - 1)].partition(";")[0]
            if not file.endswith(".py"):  # a field of ServerArgs
                module, name = "srt.server_args", f"ServerArgs.{name}".rstrip(".")
            if marked.kind == "construct":
                name += ".__init__"
            with contextlib.suppress(KeyError, griffe.AliasResolutionError, griffe.CyclicAliasError):
                found = self.package[f"{module}.{name}"]
                return found.final_target if found.is_alias else found
        return None


def objects(parent: Any) -> Iterator[Any]:
    yield parent
    for one in parent.members.values():
        if not one.is_alias:
            yield from objects(one)


def listed(old: Wheel, new: Wheel) -> dict[str, set[griffe.BreakageKind]]:
    """Kinds of breaking changes by path of the object."""
    found: dict[str, set[griffe.BreakageKind]] = {}
    for one in griffe.find_breaking_changes(old.package, new.package):
        if one.kind not in DEFAULTS:
            found.setdefault(one.obj.path, set()).add(one.kind)
            if not one.obj.is_alias:
                found.setdefault(one.obj.canonical_path, set()).add(one.kind)
    return found


def by_list(
    marked: Marked, old: Wheel, new: Wheel, breaks: dict[str, set[griffe.BreakageKind]]
) -> str | None:
    """gone or changed, as griffe's list has it for the object of a coupling or for what the object lies in."""
    there = old.object(marked)
    if marked.kind not in READ or there is None:
        return None
    path = there.path
    removed = griffe.BreakageKind.OBJECT_REMOVED
    while "." in path:
        kinds = breaks.get(path, set())
        if removed in kinds:
            return None if marked.kind in ("base", "call", "construct") else "gone"
        if kinds and path == there.path and marked.kind not in ("import", "field"):
            return "changed"
        path = path.rpartition(".")[0]
    return None


def text(one: Any) -> str:
    """What is compared of an object: its kind, and its parameters or bases."""
    if one.is_function:
        words = sorted(one.labels & {"property", "cached", "classmethod", "staticmethod", "async"})
        given = [
            f"{each.kind.value} {each.name}{'' if each.required else '='}"
            for each in one.parameters
            if each.name not in ("self", "cls")
        ]
        return f"{words} {given}"
    if one.is_class:
        return str([str(base) for base in one.bases])
    return "there"


def by_reading(marked: Marked, old: Wheel, new: Wheel) -> str | None:
    """gone or changed by griffe's objects of both releases."""
    was, now = old.object(marked), new.object(marked)
    if marked.kind not in READ or was is None:
        return None
    if now is None:
        return None if marked.kind in ("base", "call", "construct") else "gone"
    if marked.kind in ("import", "field"):
        return None
    return "changed" if text(was) != text(now) else None


def judged(said: dict[Said, str], step: str) -> dict[str, Any]:
    """Found, missed and false, counted as `measure.py` does."""
    with TABLE.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["step"] == step]
    truth = {
        key(row["file"], int(row["line"]), row["kind"], row["coupling"].rpartition(" ")[2]): row
        for row in rows
    }
    found = [
        one
        for one, row in truth.items()
        if one in said and (said[one] == "gone") == (row["change"] == "gone")
    ]
    return {
        "truth": dict(Counter(one[2] for one in truth)),
        "found": dict(Counter(one[2] for one in found)),
        "rows": len(said),
        "false": dict(Counter(one[2] for one in said if one not in truth)),
    }


def key(file: str, line: int, kind: str, name: str) -> Said:
    return file, line, kind, name if kind == "import" else ""


def of_step(step: str, old: Wheel, new: Wheel, way: str) -> dict[str, Any]:
    began, breaks = time.process_time(), {}
    if way != "as a reader":
        breaks = listed(old, new)
    said: dict[Said, str] = {}
    for marked in marked_lines():
        how = by_reading(marked, old, new) if way == "as a reader" else by_list(marked, old, new, breaks)
        if how is not None:
            said[key(marked.file, marked.line, marked.kind, marked.name)] = how
    return {
        "step": step,
        "way": way,
        **judged(said, step),
        "objects_listed": len(breaks),
        "modules": new.modules,
        "files": new.files,
        "load_seconds": round(old.seconds + new.seconds, 1),
        "compare_seconds": round(time.process_time() - began, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--wheels", type=Path, required=True)
    parser.add_argument("--step", action="append", help="the newer release of one step")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    results = []
    for before, step in pairwise(RELEASES):
        if options.step and step not in options.step:
            continue
        for helped in (False, True):
            old, new = (Wheel(one, options.wheels, helped=helped) for one in (before, step))
            for way in ("helped", "as a reader") if helped else ("as it is",):
                result = of_step(step, old, new, way)
                results.append(result)
                truth, found = (sum(result[one].values()) for one in ("truth", "found"))
                print(
                    f"{before} to {step}, {way}: {found} of {truth} found, {sum(result['false'].values())} of "
                    f"{result['rows']} false, {result['modules']} of {result['files']} files, loaded in "
                    f"{result['load_seconds']} s, compared in {result['compare_seconds']} s",
                    flush=True,
                )
                print(f"  truth {result['truth']}\n  found {result['found']}\n  false {result['false']}")
    if options.json:
        options.json.write_text(json.dumps({"griffe": version(), "steps": results}, indent=1) + "\n")


def version() -> str:
    from importlib.metadata import version

    return version("griffelib")


if __name__ == "__main__":
    main()
