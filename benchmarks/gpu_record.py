"""What `gpu_all.py` has found so far: a record, and the files that are made of it again after every event."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import gpu_roofline
import gpu_table

__all__ = ["UNCHECKED", "Record"]

UNCHECKED = "was not checked"
"""How the verdict on a kernel begins that there was no time for."""

_EVERY = 1.0
"""Seconds between two writes of the files while events come in."""


class Record:
    """`gpu_all.json`, `gpu_all.md` and `gpu_all.svg` in `folder`. Whenever the run is stopped, they are whole."""

    def __init__(self, folder: Path, **about: Any) -> None:
        self.found: dict[str, Any] = {
            **about,
            "versions": {},
            "copy_bandwidth": None,
            "steps": [],
            "correctness": [],
            "conformance": None,
            "rows": [],
            "not_run": [],
            "faults": [],
        }
        self._lock = threading.RLock()
        self._folder = folder
        self._written = 0.0
        folder.mkdir(parents=True, exist_ok=True)

    def go_on(self) -> None:
        """Take what an earlier run of the same folder found: its verdicts hold for rows that are measured now."""
        file = self._folder / "gpu_all.json"
        if file.exists():
            earlier = json.loads(file.read_text(encoding="utf-8"))
            self.found.update({name: value for name, value in earlier.items() if isinstance(value, list)})
            self.found["conformance"] = earlier["conformance"]

    def add(self, part: str, **entry: Any) -> None:
        """One more entry of a list, on the disk within a second or at `save()`."""
        with self._lock:
            self.found[part].append(entry)
            if time.monotonic() - self._written > _EVERY:
                self.save()

    def wrong(self) -> dict[str, str]:
        """The families whose kernel is wrong here or ended its process, with the reason; not those that there was no
        time to check, whose rows are measured beside that verdict."""
        return {
            entry["check"]: f"{entry['kernel']} {entry['verdict']}"
            for entry in self.found["correctness"]
            if entry["verdict"] != "right" and not entry["verdict"].startswith(UNCHECKED)
        }

    def is_bad(self) -> bool:
        """Whether something was wrong. What there was no time for is not."""
        verdicts = [kernel["verdict"] for kernel in self.found["correctness"]]
        return bool(self.found["faults"]) or any(
            verdict != "right" and not verdict.startswith(UNCHECKED) for verdict in verdicts
        )

    def save(self) -> None:
        """Each file in one piece: one that is being read is the old one or the new one."""
        with self._lock:
            self._put("gpu_all.json", json.dumps(self.found, indent=1) + "\n")
            self._put("gpu_all.md", gpu_table.page(self.found))
            if any(row["seconds"] for row in self.found["rows"]):
                gpu_roofline.save(self.found, self._folder / "gpu_all.svg")
            self._written = time.monotonic()

    def _put(self, name: str, text: str) -> None:
        beside = self._folder / f".{name}"
        beside.write_text(text, encoding="utf-8")
        beside.replace(self._folder / name)
