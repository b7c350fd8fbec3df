"""The JSON document of one run. `report.schema.json` is its form; `SCHEMA` rises when a reader must change."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, get_args

from sglang_platform.conformance.level import Level
from sglang_platform.conformance.outcome import Outcome, Status
from sglang_platform.conformance.profiles import edition
from sglang_platform.conformance.report.digests import checksum, file_digest, plugin_digest, suite_digest
from sglang_platform.conformance.report.environment import environment
from sglang_platform.conformance.runner import Selection
from sglang_platform.conformance.verdict import judge

__all__ = ["SCHEMA", "STATUSES", "by_reason", "counted", "levels_of", "make_document", "with_sums"]

SCHEMA = 4
STATUSES: tuple[str, ...] = ("passed", *(status for status in get_args(Status) if status != "passed"))


def make_document(
    selection: Selection,
    about: dict[str, Any],
    outcomes: Sequence[Outcome],
    profiles: Sequence[str],
    *,
    started: float,
    command: str,
    seconds: float | None = None,
    sittings: int = 1,
    left_out: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """The document. `about` is the platform's description of itself (`Runner.describe`); `profiles` are those that the
    verdict is on; `left_out` are plugins of others (`Runner.left_out`). `seconds` is what all sittings of the run took,
    by default the time since it was `started`."""
    platform, file = about["platform"], selection.vendor_file.path
    shapes = {one["path"]: one["shapes"] for one in about["models"]}
    run = {
        "command": command,
        "started": datetime.fromtimestamp(started, timezone.utc).isoformat(timespec="seconds"),
        "seconds": round(time.time() - started if seconds is None else seconds, 1),
        "seed": selection.seed,
        "whole": selection.whole,
        "thorough": selection.thorough,
        "models": [
            {"path": path, "digest": file_digest(Path(path)), "shapes": shapes.get(path, [])}
            for path in selection.models
        ],
        "shard": str(selection.shard) if selection.shard else None,
        "shards": None,
        "sittings": sittings,
        "vendor_file": str(file) if file else None,
        "vendor_digest": file_digest(file) if file else None,
        "left_out": list(left_out),
    }
    document = {
        "schema": SCHEMA,
        "suite": {"edition": edition(), "digest": suite_digest()},
        "platform": {**platform, "digest": plugin_digest(platform)},
        "declares": about["declares"],
        "host": selection.host,
        "environment": environment(platform.get("distribution")),
        "run": run,
    }
    return with_sums(document, [outcome.as_dict() for outcome in outcomes], profiles)


def with_sums(
    document: dict[str, Any], outcomes: list[dict[str, Any]], profiles: Sequence[str]
) -> dict[str, Any]:
    """The document with what follows from its outcomes: verdict, sums, checksum."""
    absent = bool(document["platform"]["device_absent"])
    whole = {
        **document,
        "verdict": judge(outcomes, profiles, device_absent=absent).as_dict(),
        "summary": counted(outcomes),
        "levels": levels_of(outcomes),
        "outcomes": outcomes,
    }
    return {**whole, "checksum": checksum(whole)}


def counted(outcomes: Sequence[dict[str, Any]]) -> dict[str, int]:
    """How many outcomes have each status."""
    return {status: sum(one["status"] == status for one in outcomes) for status in STATUSES}


def by_reason(outcomes: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    """The ids of the checks that were not run, or had nothing to judge, by the reason why."""
    reasons: dict[str, list[str]] = {}
    for outcome in outcomes:
        if outcome["status"] in ("not_run", "not_applicable"):
            reasons.setdefault(outcome["why"] or "no reason given", []).append(outcome["id"])
    return reasons


def levels_of(outcomes: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The same by level, with the seconds."""
    found: dict[str, dict[str, Any]] = {}
    for level in Level:
        mine = [one for one in outcomes if one["level"] == level.label]
        if mine:
            found[level.label] = {**counted(mine), "seconds": round(sum(one["seconds"] for one in mine), 3)}
    return found
