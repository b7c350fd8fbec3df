"""SGLang's server kits, one after the other, on one server; and its scripted runtime, which starts its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from sglang_platform.conformance.host.engine import EngineFailed
from sglang_platform.conformance.host.server import ServerProcess
from sglang_platform.conformance.host.session import models_folder
from sglang_platform.conformance.host.stacks import stacks
from sglang_platform.conformance.kits import baseline
from sglang_platform.conformance.kits.model import make_model
from sglang_platform.conformance.kits.table import KITS, Kit
from sglang_platform.conformance.kits.verdict import KitTest

__all__ = ["OPTIONS", "KitServer", "in_tree", "scripted"]

_SECONDS = 300
_START = 300
_PATIENCE = 5
"""With SGLang's own CPU device, which is asked what it can, not how fast."""

OPTIONS: dict[str, Any] = {
    "max_total_tokens": 65536,
    "context_length": 131072,
    "max_running_requests": 32,
    "chunked_prefill_size": 2048,
    "enable_streaming_session": True,
    "enable_return_hidden_states": True,
}
"""How the server for the kits is started."""

_SCRIPTED: dict[str, Any] = {
    "dtype": "float32",
    "sampling_backend": "pytorch",
    "mem_fraction_static": 0.5,
    "max_total_tokens": 4096,
    "page_size": 16,
    "random_seed": 0,
    "kv_canary": "none",  # it knows pools by the names of SGLang's own classes
    "kv_canary_real_data": "none",
    "kv_canary_sweep_interval": 0,
}


_TREE = "SGLANG_UNIFIED_RADIX_TREE_CORE_BACKEND"
"""The scripted runtime looks into the cache of prefixes; the sources of the one in Rust are not in the wheel."""


class KitServer:
    """A server with the taught model, and the process beside it in which kits run.

    `patience` multiplies the tests' time limits. Raises EngineFailed where the server does not start.
    """

    def __init__(
        self,
        platform: str | None,
        options: Mapping[str, Any],
        environment: Mapping[str, str] | None = None,
        *,
        patience: float = 1,
    ) -> None:
        model = make_model(models_folder() / "kits")
        self._server = ServerProcess(
            platform,
            {"model_path": str(model), **OPTIONS, **options},
            environment=environment,
            seconds=_START,
        )
        self._command = [sys.executable, "-m", f"{__package__}.run_kit", self._server.url, str(model),
                         str(self._server.process.pid), str(patience)]  # fmt: skip
        self._patience = patience
        self._process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def run(self, kit: Kit) -> list[KitTest]:
        """Every test of a kit. A process that takes longer is ended, and that is the failure of this kit alone."""
        if self._process.poll() is not None:
            self._process = self._start()
        late = threading.Timer(_SECONDS * self._patience, self._process.kill)
        late.start()
        try:
            return list(self._tests(kit))
        finally:
            late.cancel()

    def _tests(self, kit: Kit) -> Iterator[KitTest]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):  # it has ended: reading tells
            print(kit.name, file=self._process.stdin, flush=True)
        for line in self._process.stdout:
            answer = json.loads(line)
            if answer is None:
                return
            yield KitTest(**answer)
        yield KitTest(kit.name, "the kits' process", "failed", f"it ended with status {self._process.wait()}")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._server.close()

    def __enter__(self) -> KitServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def in_tree() -> list[KitTest]:
    """Every test of every kit, and every script, on SGLang's own CPU device."""
    with tempfile.TemporaryDirectory(prefix="sglang-platform-kits-") as folder:
        environment = baseline.environment(Path(folder))
        with KitServer(None, baseline.OPTIONS, environment, patience=_PATIENCE) as server:
            found = [test for kit in KITS for test in server.run(kit)]
        return found + scripted(baseline.OPTIONS, environment)


def scripted(options: Mapping[str, Any], environment: Mapping[str, str]) -> list[KitTest]:
    """The scripts of the scripted runtime. Raises EngineFailed where its process hangs."""
    model = make_model(models_folder() / "kits")
    told = json.dumps({**_SCRIPTED, **options})
    with subprocess.Popen(
        [sys.executable, "-m", f"{__package__}.scripted_run", str(model), told],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", _TREE: "python", **environment},
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=2 * _START)
        except subprocess.TimeoutExpired:
            raise EngineFailed(
                f"the scripted runtime did not come back within {2 * _START} s; its stacks:\n{stacks(process.pid)}"
            ) from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with the server that it started
    return [KitTest(**json.loads(line)) for line in output.splitlines()]
