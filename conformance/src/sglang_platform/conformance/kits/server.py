"""SGLang's server kits, one after the other, on one server."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from sglang_platform.conformance.host.server import ServerProcess
from sglang_platform.conformance.kits.table import KITS, Kit

__all__ = ["OPTIONS", "KitTest", "run_kits"]

_SECONDS = 330

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
    server: ServerProcess, model: Path, kits: tuple[Kit, ...] = KITS, seconds: float = _SECONDS
) -> Iterator[KitTest]:
    """Every test of `kits` against a running server, one after the other, in one process beside it.

    Ends with the kit after which the server lives no more, and after so many seconds.
    """
    names = [kit.name for kit in kits]
    command = [
        sys.executable,
        "-m",
        f"{__package__}.run_kit",
        server.url,
        str(model),
        str(server.process.pid),
        *names,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        late = threading.Timer(seconds, process.kill)
        late.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                yield KitTest(**json.loads(line))
        finally:
            late.cancel()
            process.kill()
    if process.returncode:
        yield KitTest("", "the kits' process", "failed", f"it ended with status {process.returncode}")
