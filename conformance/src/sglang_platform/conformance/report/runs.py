"""What a report says of its run: when, how long, by which command, and of which parts. Each follows from the others."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

__all__ = ["all_shards", "chosen", "problems_of_run", "selecting", "words_of"]

_CHOOSE = ("--check", "--level", "-k", "--last-failed")
_SHARD = "--shard"
"""These options leave checks out; so does `--host none`, where it is given."""


def words_of(command: str) -> list[str]:
    """A command's words; by blanks alone where its quotation marks do not match."""
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def chosen(command: str, *options: str) -> list[str]:
    """Each of these options of a command with its value; by default those that choose checks, but for the shard."""
    words, found = words_of(command), []
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if word.startswith("-k") and word != "-k":
            name, equals, value = "-k", "=", word.removeprefix("-k")
        if name in (options or _CHOOSE):
            found.append(f"{name} {shlex.quote(value if equals else ''.join(words[at + 1 : at + 2]))}")
    return sorted(found)


def selecting(run: Mapping[str, Any]) -> list[str]:
    """The options by which a run left checks out, as they were given. All shards together leave out none."""
    commands = [one["command"] for one in run["shards"]] if run["shards"] else [run["command"]]
    words = chosen(commands[0], *_CHOOSE, "--host", *(() if run["shards"] else (_SHARD,)))
    return [one for one in words if one != "--host sglang"]


def all_shards(told: Sequence[str]) -> bool:
    """Whether they are 1/n to n/n, each once. What they claim to be of is not counted up to."""
    parts = [one.split("/") for one in told]
    if any(len(part) != 2 or part[1] != str(len(told)) for part in parts):
        return False
    return sorted(part[0] for part in parts) == sorted(str(n + 1) for n in range(len(told)))


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
    if ("--thorough" in words_of(run["command"])) != run["thorough"]:
        yield f"its tier is not that of `{run['command']}`"


def _parts(run: Mapping[str, Any]) -> Iterator[str]:
    """Of a merged report: all shards of one selection are there."""
    told = [one["shard"] for one in run["shards"]]
    if not told or not all_shards(told):
        yield f"it was merged from the shards {', '.join(told)}, which are not all of one run"
    for one in run["shards"]:
        chosen = _choosing(one["command"])
        if "--shard" not in chosen or (chosen == {"--shard"}) != run["whole"]:
            yield f"it says that the {'whole' if run['whole'] else 'not whole'} suite was run, by `{one['command']}`"
    if sum(one["seconds"] for one in run["shards"]) > run["seconds"] + 1:
        yield "its shards took longer than the run"


def _choosing(command: str) -> set[str]:
    return {one.partition(" ")[0] for one in chosen(command, *_CHOOSE, _SHARD)}
