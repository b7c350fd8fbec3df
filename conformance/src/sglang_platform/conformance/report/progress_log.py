"""What a run has come to, kept in the report's folder while it goes, so that one that was cut off can go on.

One JSON object a line: first what the run is of, then each outcome. The file goes when the run is complete.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sglang_platform.conformance.outcome import Outcome
from sglang_platform.core.errors import ConfigurationError
from sglang_platform.core.installed.files import file_bytes
from sglang_platform.devtools.cli.output_file import write_text

__all__ = ["ProgressLog"]

_NAME = "unfinished.jsonl"
_LARGEST = 64 << 20  # bytes, as of a report


class ProgressLog:
    """In `folder`. `key` is what must be the same for a run to go on: options, suite, plugin."""

    def __init__(self, folder: Path, key: Mapping[str, Any]) -> None:
        self._path, self._key = folder / _NAME, json.loads(json.dumps(key))
        self.command: str | None = None
        self.started = 0.0
        self.sittings = 1
        self.outcomes: dict[str, Outcome] = {}
        """Of earlier sittings."""

    def begin(self, command: str, started: float) -> None:
        """A run from the start."""
        self.command, self.started = command, started
        write_text(self._path, self._line({"key": self._key, "command": command, "started": started}))

    def resume(self) -> None:
        """Go on. Raises ConfigurationError where there is nothing to go on with, or it is another run."""
        try:
            if not os.path.lexists(self._path):
                raise ValueError("it was finished, or none was begun")
            lines = file_bytes(str(self._path), _LARGEST).decode("utf-8").splitlines()
            if lines and not lines[-1].endswith("}"):
                lines.pop()  # cut off while it was written
            head, *rest = [json.loads(line) for line in lines]
            self.command, self.started, found = head["command"], float(head["started"]), dict(head["key"])
            self.outcomes = {
                one["outcome"]["id"]: Outcome.of(one["outcome"]) for one in rest if "outcome" in one
            }
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ConfigurationError(
                f"there is no run to go on with in {self._path.parent}",
                why=f"{_NAME} has no {error}" if isinstance(error, KeyError) else str(error),
                fix="leave --resume out",
            ) from None
        other = [name for name, value in self._key.items() if found.get(name) != value]
        if other:
            raise ConfigurationError(
                f"the run in {self._path.parent} is another one",
                why="; ".join(
                    f"{name} was {found.get(name)!r}, and is {self._key[name]!r}" for name in other
                ),
                fix="give the options that it was begun with, or leave --resume out",
            )
        self.sittings = 2 + sum("resumed" in one for one in rest)
        self._path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        self._append({"resumed": True})

    def add(self, outcome: Outcome) -> None:
        """One more check is done."""
        self._append({"outcome": outcome.as_dict()})

    def finish(self) -> None:
        """The run is complete."""
        self._path.unlink(missing_ok=True)

    def _append(self, fields: dict[str, Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(self._line(fields))

    def _line(self, fields: Mapping[str, Any]) -> str:
        return json.dumps(fields) + "\n"
