"""The page of what became of the unseen platforms, made of the logs of their runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from broken import Broken, load
from reasons import REASONS

__all__ = ["of"]

_HEAD = """# Platforms that the suite had not seen

691 broken platforms and some unusual healthy ones were written by somebody who had not read the checks
(`conformance/tests/mutants/unseen`). The suite as it was then caught 306 of the 538 that were run. Checks were
added for what was missing, by dimension. A second set of 203, in the dimensions that end with 2, was written in the
same way against the suite with those checks, and asked again where checks were added for it. So was a third, of
263: of the 189 that were run before checks were added for it, 145 were caught. The others were run later, and most
survivors were asked again where cases were added for them. A fourth, of 102, was put to the suite as it was then; of
the first 24 of it that were run, 10 were caught at first sight, of the others 47. Of a fifth, of 101 in the dimensions
that end with 5, some of them after bugs of other projects, 56 were caught at first sight. Of a sixth, of 71,
35 were caught at first sight, and of a seventh, of 53, 23 (three more were refused for a slip of their author's, the
name of a parameter, which is mended); of an eighth, of 40, 26, of a ninth, of 40, 19, and of a
tenth, of 53, 30; two of its seven healthy ones were failed. The last run of a platform counts (`outcomes.jsonl` beside
the platforms); one that was caught by the suite as it was may not have been run again, and some were asked single
checks of their dimension. A survivor is listed with the reason why nothing should fail on it, or without one where
nothing sees it yet.

Written by `python run.py --write docs/mutants_unseen.md outcomes.jsonl LOG ...` in that folder.

"""


def of(logs: Sequence[Path]) -> str:
    """The page. Raises KeyError for a log of a platform that is not there."""
    known = load()
    last = {line["name"]: line for path in logs for line in map(json.loads, path.read_text().splitlines())}
    for name in last:
        known[name]
    return _HEAD + _table(known.values(), last) + "\n" + _survivors(known.values(), last)


def _table(every: Iterable[Broken], last: dict[str, Any]) -> str:
    rows: dict[str, list[int]] = {}
    for one in every:
        row = rows.setdefault(f"{one.dimension}{' (healthy)' if one.healthy else ''}", [0, 0, 0])
        row[0] += 1
        if one.name in last:
            row[1] += 1
            row[2] += bool(last[one.name]["failed"])
    lines = ["| dimension | written | run | caught, or false alarms | survivors |", "|---|---|---|---|---|"]
    for name, (written, run, failed) in sorted(rows.items()):
        survived = "" if name.endswith("(healthy)") else run - failed
        lines.append(f"| {name} | {written} | {run} | {failed} | {survived} |")
    return "\n".join(lines) + "\n"


def _survivors(every: Iterable[Broken], last: dict[str, Any]) -> str:
    lines = ["## Survivors", "", "| dimension | platform | defect | why nothing fails |", "|---|---|---|---|"]
    alarms = ["", "## Healthy ones on which a check fails", ""]
    for one in sorted(every, key=lambda one: (one.dimension, one.name)):
        failed = last.get(one.name, {}).get("failed")
        if one.healthy and failed:
            first = failed[0]
            said = str(first["what"]).strip().splitlines()[0]
            why = f" No false alarm: {REASONS[one.name]}." if one.name in REASONS else ""
            alarms.append(f"- {one.name} ({one.defect}): {first['check']}: {said}.{why}")
        if not one.healthy and failed == []:
            lines.append(
                f"| {one.dimension} | {one.name} | {_cell(one.defect)} | {_cell(REASONS.get(one.name, ''))} |"
            )
    return "\n".join(lines + (alarms if len(alarms) > 3 else [])) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
