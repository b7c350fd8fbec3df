"""Checks on many platforms: torch and the checks are loaded once, and each platform has a fork of its own."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from typing import Any

import broken
import torch
from in_process import FixedSubject

from sglang_platform.conformance.case_ids import matches
from sglang_platform.conformance.check import Check, registered
from sglang_platform.conformance.seeds import seed_of
from sglang_platform.conformance.worker import run_check

LEVELS = frozenset({"memory", "kernels", "graphs"})
"""Those whose checks need no process of their own."""

SECONDS = 900
_LAST = ("memory.random_histories_add_up", "kernels.served_models_attention", "kernels.decode_attention")


def checks_of(levels: tuple[str, ...]) -> list[Check]:
    """Those of the levels, level after level, slow ones last in theirs."""
    known = registered().values()
    return [
        check
        for level in levels
        for check in sorted(known, key=lambda check: check.id in _LAST)
        if check.level.label == level and "none" in check.hosts
    ]


def failures(
    one: broken.Broken, *, every: bool, only: tuple[str, ...] = ()
) -> tuple[list[dict[str, Any]], int]:
    """What failed, and how many checks were asked; in a fork of this process. `only`: globs over the checks to ask."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        status = 1
        try:
            torch.set_num_threads(1)
            _ask(one, every, writer, only)
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    lines, how = _read(reader, child)
    failed = [line for line in lines if line["status"] in ("failed", "blocked")]
    asked = sum(line["status"] in ("failed", "passed") for line in lines)
    if how:
        failed.append({"check": "", "status": "failed", "what": how, "failure": "crash", "case": None})
    return failed, asked


def _ask(one: broken.Broken, every: bool, writer: int, only: tuple[str, ...]) -> None:
    platform = getattr(broken, f"{one.table}__{one.name}")
    for check in checks_of(one.levels):
        if only and not any(matches(glob, check.id) for glob in only):
            continue
        try:
            subject = FixedSubject(platform())
            found = run_check(check, subject, seed_of(0, check.id))
        except Exception as error:  # noqa: BLE001 - what the platform raises is a failure as well
            found = {"status": "failed", "what": f"{type(error).__name__}: {error}", "failure": "error"}
        what = str(found.get("what") or found.get("why") or "")[:2000]
        line = {"check": check.id, "status": found["status"], "what": what, "failure": found.get("failure")}
        os.write(writer, (json.dumps({**line, "case": str(found.get("case"))}) + "\n").encode())
        if found["status"] == "failed" and not every:
            return


def _read(reader: int, child: int) -> tuple[list[dict[str, Any]], str]:
    """The child's lines, and how it ended where that is not as it should."""
    until, text = time.monotonic() + SECONDS, b""
    while True:
        ready, _, _ = select.select([reader], [], [], max(0.0, until - time.monotonic()))
        part = os.read(reader, 1 << 16) if ready else b""
        text += part
        if not part:
            break
    if not ready:
        os.kill(child, signal.SIGKILL)
    os.close(reader)
    _, status = os.waitpid(child, 0)
    lines = [json.loads(line) for line in text.decode().splitlines() if line.endswith("}")]
    after = f" after {lines[-1]['check']}" if lines else ""
    if not ready:
        return lines, f"it did not come back within {SECONDS} s{after}"
    return lines, f"the process ended with {os.waitstatus_to_exitcode(status)}{after}" if status else ""
