"""What a report says of its run: when, how long, by which command, and of which parts. Each follows from the others."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

__all__ = ["problems_of_run"]

_CHOOSE = ("--check", "--level", "-k", "--last-failed", "--shard")
"""Options that leave checks out."""


def problems_of_run(report: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a report's `run`, in words."""
    run = report["run"]
    try:
        started = datetime.fromisoformat(run["started"])
    except ValueError:
        yield f"it was started at {run['started']!r}, which is no time"
        return
    if started.tzinfo is None or started > datetime.now(timezone.utc):
        yield f"it was started at {run['started']}, which has not been yet"
    total = sum(one["seconds"] for one in report["outcomes"])
    if any(one["seconds"] < 0 for one in report["outcomes"]) or total > run["seconds"] + 1:
        yield f"its checks took {total:.0f} s, and the run took {run['seconds']:.0f} s"
    yield from _parts(run) if run["shards"] is not None else _command(run)


def _command(run: Mapping[str, Any]) -> Iterator[str]:
    chosen = _choosing(run["command"])
    if bool(chosen) == run["whole"]:
        yield f"it says that the {'whole' if run['whole'] else 'not whole'} suite was run, by `{run['command']}`"
    if ("--shard" in chosen) != (run["shard"] is not None):
        yield f"it says that shard {run['shard']} was run, by `{run['command']}`"
    if ("--thorough" in shlex.split(run["command"])) != run["thorough"]:
        yield f"its tier is not that of `{run['command']}`"


def _parts(run: Mapping[str, Any]) -> Iterator[str]:
    """Of a merged report: all shards of one selection are there."""
    told = [one["shard"] for one in run["shards"]]
    count = told[0].partition("/")[2]
    if not count.isdigit() or sorted(told) != sorted(f"{n}/{count}" for n in range(1, int(count) + 1)):
        yield f"it was merged from the shards {', '.join(told)}, which are not all of one run"
    for one in run["shards"]:
        chosen = _choosing(one["command"])
        if "--shard" not in chosen or (chosen == {"--shard"}) != run["whole"]:
            yield f"it says that the {'whole' if run['whole'] else 'not whole'} suite was run, by `{one['command']}`"
    if sum(one["seconds"] for one in run["shards"]) > run["seconds"] + 1:
        yield "its shards took longer than the run"


def _choosing(command: str) -> set[str]:
    words = {word.partition("=")[0] for word in shlex.split(command)}
    return words.intersection(_CHOOSE)
