"""One report from those of all shards of a run: the verdict is that of the run in one piece."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from sglang_platform.conformance.check import registered
from sglang_platform.conformance.report.document import with_sums
from sglang_platform.conformance.report.runs import all_shards, chosen
from sglang_platform.conformance.report.verify import problems_of
from sglang_platform.core.errors import ConfigurationError

__all__ = ["merged"]

_SAME = ("suite", "platform", "declares", "host")
_SAME_IN_RUN = ("seed", "thorough", "models", "vendor_digest", "left_out")
_MISSING_TOLD = 20
"""Shards that are named as missing; a report may claim to be of any number."""


def merged(reports: Sequence[Mapping[str, Any]], command: str) -> dict[str, Any]:
    """The whole report. Raises ConfigurationError that says what keeps them from being one run."""
    problems = _problems(reports)
    if problems:
        raise ConfigurationError(
            "these reports are not the shards of one run",
            why="\n".join(f"- {one}" for one in problems),
            fix="run every shard with the same options but --shard, in equal environments, each with its --report",
        )
    first, runs = reports[0], [one["run"] for one in reports]
    whole = {one["id"]: one for report in reports for one in report["outcomes"]}
    run = {
        **first["run"],
        "command": command,
        "started": min(one["started"] for one in runs),
        "seconds": round(sum(one["seconds"] for one in runs), 1),
        "whole": not any(chosen(one["command"]) for one in runs),
        "shard": None,
        "shards": [
            {name: one[name] for name in ("shard", "command", "started", "seconds")}
            | {"checksum": report["checksum"]}
            for one, report in zip(runs, reports, strict=True)
        ],
        "sittings": max(one["sittings"] for one in runs),
    }
    document = {name: first[name] for name in ("schema", *_SAME, "environment")}
    outcomes = [whole[name] for name in registered() if name in whole]
    return with_sums({**document, "run": run}, outcomes, _asked(first))


def _problems(reports: Sequence[Mapping[str, Any]]) -> list[str]:
    shards = [one["run"]["shard"] for one in reports]
    if None in shards:
        return ["one of them is of no shard"]
    counts = {one.partition("/")[2] for one in shards}
    if len(counts) > 1:
        return [f"they are of {' and of '.join(sorted(counts))} shards"]
    (count,) = counts
    found = []
    if not all_shards(shards):
        of = int(count) if count.isdecimal() and len(count) < 9 else 0
        missing = (f"{n}/{count}" for n in range(1, of + 1) if f"{n}/{count}" not in shards)
        found += [f"shard {one} is missing" for one in islice(missing, _MISSING_TOLD)]
        found = found or [f"they are the shards {', '.join(sorted(shards))}, which are not all of one run"]
    found += [
        f"shard {one} is there twice" for one in sorted({one for one in shards if shards.count(one) > 1})
    ]
    first = reports[0]
    for report in reports[1:]:
        name = f"shard {report['run']['shard']}"
        found += [
            f"{name} has another {key} than shard {shards[0]}" for key in _SAME if report[key] != first[key]
        ]
        found += [
            f"{name} has another {key} than shard {shards[0]}"
            for key in _SAME_IN_RUN
            if report["run"][key] != first["run"][key]
        ]
        if report["environment"]["packages"] != first["environment"]["packages"]:
            found.append(f"{name} ran with other versions of packages than shard {shards[0]}")
        if _asked(report) != _asked(first):
            found.append(f"{name} was judged by other profiles than shard {shards[0]}")
        if chosen(report["run"]["command"]) != chosen(first["run"]["command"]):
            found.append(f"{name} chose other checks than shard {shards[0]}: `{report['run']['command']}`")
    ids = [one["id"] for report in reports for one in report["outcomes"]]
    found += [f"{name} is in two of them" for name in sorted({one for one in ids if ids.count(one) > 1})]
    for report in reports:
        problems = problems_of(report, installed=False)
        found += [f"shard {report['run']['shard']}: {one}" for one in problems]
    return found


def _asked(report: Mapping[str, Any]) -> list[str]:
    return [one["name"] for one in report["verdict"]["profiles"]]
