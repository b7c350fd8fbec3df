"""SGLang's server kits, one after the other, on one server."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sglang_platform.conformance.host.server import ServerProcess
from sglang_platform.conformance.host.session import models_folder
from sglang_platform.conformance.kits import baseline
from sglang_platform.conformance.kits.model import make_model
from sglang_platform.conformance.kits.table import KITS, Kit
from sglang_platform.conformance.kits.verdict import KitTest

__all__ = ["OPTIONS", "in_tree", "on_platform", "run_kits"]

_SECONDS = 600
_START = 300

OPTIONS: dict[str, Any] = {
    "max_total_tokens": 65536,
    "context_length": 131072,
    "max_running_requests": 32,
    "chunked_prefill_size": 2048,
    "enable_streaming_session": True,
    "enable_return_hidden_states": True,
}
"""How the server for the kits is started."""


def on_platform(name: str, device: str) -> list[KitTest]:
    """Every test of every kit on one server of the platform `name`. Raises EngineFailed where it does not start."""
    model = make_model(models_folder() / "kits")
    with ServerProcess(
        name, {"model_path": str(model), **OPTIONS, "device": device}, seconds=_START
    ) as server:
        return list(run_kits(server, model))


def in_tree() -> list[KitTest]:
    """Every test of every kit on one server of SGLang's own CPU device."""
    model = make_model(models_folder() / "kits")
    with tempfile.TemporaryDirectory(prefix="sglang-platform-kits-") as folder:
        options = {"model_path": str(model), **OPTIONS, **baseline.OPTIONS}
        environment = baseline.environment(Path(folder))
        with ServerProcess(None, options, environment=environment, seconds=_START) as server:
            return list(run_kits(server, model, seconds=3 * _SECONDS))


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
