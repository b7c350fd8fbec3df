"""SGLang's server kits on one server: each kit in a process of its own, the server asked whether it lives after it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sglang_platform.conformance.host.server import ServerProcess
from sglang_platform.conformance.kits.table import KITS, Kit

__all__ = ["OPTIONS", "KitTest", "run_kits"]

_KIT_SECONDS = 240

OPTIONS: dict[str, Any] = {
    "max_total_tokens": 65536,
    "context_length": 131072,
    "max_running_requests": 32,
    "chunked_prefill_size": 2048,
    "enable_streaming_session": True,
    "enable_return_hidden_states": True,
}
"""How the server for the kits is started."""


class KitTest(NamedTuple):
    """One test of a kit and how it ended: `passed`, `failed`, `skipped`, `left out`, or `missing` in this release."""

    kit: str
    test: str
    outcome: str
    words: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.kit}: {self.test}: {self.outcome} {self.words}".rstrip()


def run_kits(
    server: ServerProcess, model: Path, kits: tuple[Kit, ...] = KITS, say: Callable[[str], None] = print
) -> Iterator[KitTest]:
    """Every test of `kits` against a running server. Ends with the kit after which the server lives no more."""
    for kit in kits:
        for reply in _one(kit, server, model):
            found = KitTest(kit.name, **reply)
            say(str(found))
            yield found
        if kit.module == "pause_generation_kit":
            server.post("/continue_generation", {})  # a test that failed may have left it paused
        if server.get("/health", timeout=20).status != 200 and not server.alive:
            yield KitTest(kit.name, "the server afterwards", "failed", "it ended")
            return


def _one(kit: Kit, server: ServerProcess, model: Path) -> Iterator[Mapping[str, Any]]:
    command = [sys.executable, "-m", f"{__package__}.run_kit", kit.name, server.url, str(model)]
    try:
        done = subprocess.run(
            [*command, str(server.process.pid)],
            capture_output=True,
            text=True,
            check=False,
            timeout=_KIT_SECONDS,
        )
    except subprocess.TimeoutExpired as late:
        yield from _replies(late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or "")
        yield {"test": "", "outcome": "failed", "words": f"not done within {_KIT_SECONDS} s"}
        return
    yield from _replies(done.stdout)
    if done.returncode:
        yield {"test": "", "outcome": "failed", "words": done.stderr[-600:]}


def _replies(output: str) -> Iterator[Mapping[str, Any]]:
    for line in output.splitlines():
        yield json.loads(line)
