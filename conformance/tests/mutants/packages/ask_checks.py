"""Asks checks about a platform in this process: `ask_checks.py PLATFORM CHECK...`. One JSON line for each.

The first that fails ends it. Where lines are watched (`at_start/sitecustomize.py`), those of each check are written
into a folder of its name, its children's among them, and those of the start into `start`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import sitecustomize
import torch

from sglang_platform.conformance.check import registered
from sglang_platform.conformance.plugin import DeviceAbsent
from sglang_platform.conformance.seeds import seed_of
from sglang_platform.conformance.subject import PlatformRefused, Subject
from sglang_platform.conformance.worker import run_check
from sglang_platform.core.errors import PlatformError


def main() -> int:
    named, *names = sys.argv[1:]
    platform, _, location = named.partition("=")
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    watched = os.environ.get("LINES_SEEN_IN")
    subject = Subject(platform, location=location or None)
    _into(watched, "start")
    try:
        subject.platform  # noqa: B018 - made before the first check, as a worker does
    except (PlatformError, PlatformRefused, DeviceAbsent, SystemExit) as refused:
        _tell("start", 0.0, str(refused))
        return 1
    _told(watched, "start")
    known = registered()
    for name in names:
        _into(watched, name)
        started = time.perf_counter()
        found = run_check(known[name], subject, seed_of(0, name), first_only=True)
        _told(watched, name)
        failed = found["status"] in ("failed", "blocked")
        _tell(name, time.perf_counter() - started, found.get("what") or found.get("why") if failed else None)
        if failed and not watched:
            return 1
    return 0


def _tell(name: str, seconds: float, failed: Any) -> None:
    print("\n" + json.dumps({"asked": name, "seconds": round(seconds, 3), "failed": failed}), flush=True)


def _into(watched: str | None, name: str) -> None:
    if watched is not None:
        os.environ["LINES_SEEN_IN"] = str(Path(watched) / name)


def _told(watched: str | None, name: str) -> None:
    if watched is not None and sitecustomize.LINES is not None:
        folder = Path(watched) / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "own.json").write_text(json.dumps(sitecustomize.LINES.taken()))


if __name__ == "__main__":
    sys.exit(main())
