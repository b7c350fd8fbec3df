"""An SGLang engine in a process of its own, with what it needs to prove itself afterwards."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from sglang_platform.conformance.host.stacks import kill_tree, stacks
from sglang_platform.core import counters
from sglang_platform.core.counters import REPORT_DIR_VARIABLE

__all__ = ["EngineFailed", "EngineProcess", "RequestRefused"]

_LAST_LINES = 40
_GAUGES_SECONDS = 30.0
_START_SECONDS = 600.0
"""Ten times what a start takes on a small machine; the first one may build kernels."""


class EngineFailed(RuntimeError):
    """The engine did not start, died, or refused a request; the message ends with its last lines of output."""

    is_the_platforms = True
    """For `blame`: the suite raises it, of what happened in SGLang's processes on the platform."""


class RequestRefused(EngineFailed):
    """The engine answered with an error, and lives."""


class EngineProcess:
    """Start with a platform, ask, read the proof, stop.

    `arguments` go to `sglang.Engine`. `on_line` sees each line that the engine prints while it runs. Counters of all
    its processes are read from `report_dir`, which lives as long as this object unless one is given. A start that takes
    longer than `seconds` is ended, and raises EngineFailed with the stacks of all its processes.
    """

    def __init__(
        self,
        platform: str,
        arguments: dict[str, Any],
        *,
        environment: dict[str, str] | None = None,
        report_dir: Path | None = None,
        on_line: Callable[[str], None] | None = None,
        seconds: float = _START_SECONDS,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="sglang-platform-report-")
        self.report_dir = report_dir or Path(self._folder.name)
        self._lines: list[str] = []
        self._on_line = on_line
        variables = {
            **os.environ,
            "SGLANG_PLATFORM": platform,
            REPORT_DIR_VARIABLE: str(self.report_dir),
            "PYTHONUNBUFFERED": "1",
            "HF_HUB_OFFLINE": "1",
            **(environment or {}),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sglang_platform.conformance.host.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=variables,
        )
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read_output, daemon=True)
        self._reader.start()
        threading.Thread(target=self._read_answers, daemon=True).start()
        try:
            self._send({**_DEFAULTS, **arguments})
            self._receive("start", within=seconds)
        except BaseException:
            self._end_start()
            raise

    @property
    def pid(self) -> int:
        """The process whose children are the engine's."""
        return self._process.pid

    def call(self, name: str, *, on_part: Callable[[Any], None] | None = None, **arguments: Any) -> Any:
        """Ask the engine; raises EngineFailed with its words when it cannot answer.

        `on_part` gets each part of a streamed answer as it comes.
        """
        self._send({"call": name, "arguments": arguments})
        while "part" in (answer := self._receive_message(name)):
            if on_part is not None:
                on_part(answer["part"])
        return answer["result"]

    def counters(self) -> dict[str, int]:
        """The counts of the scheduler processes, summed: the proof of which parts did the work."""
        total: dict[str, int] = {}
        for counts in counters.read_all(self.report_dir).values():
            if counts.get("host.process.scheduler"):
                for name, count in counts.items():
                    total[name] = total.get(name, 0) + count
        return total

    def gauges(self) -> dict[str, int]:
        """Token slots of the KV cache in the scheduler: `size`, `available`, `evictable`.

        Raises EngineFailed where the scheduler does not answer: SGLang's own check for leaks ends it.
        """
        self._send({"call": "gauges", "arguments": {}})
        self._receive("gauges", within=_GAUGES_SECONDS)
        return {
            k.removeprefix("gauge.kv."): v for k, v in self.counters().items() if k.startswith("gauge.kv.")
        }

    def output(self) -> str:
        """All that the engine's processes printed so far."""
        return "\n".join(self._lines)

    def close(self) -> None:
        """Stop the engine; kills it if it does not stop within 30 s."""
        if self._process.poll() is None:
            try:
                self._send({"call": "shutdown", "arguments": {}})
                self._process.wait(30)
            except (OSError, subprocess.TimeoutExpired):
                kill_tree(self.pid)
        self._reader.join(5)
        self._folder.cleanup()

    def __enter__(self) -> EngineProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, body: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(body) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failed("is gone") from None

    def _receive(self, name: str, within: float | None = None) -> Any:
        return self._receive_message(name, within)["result"]

    def _receive_message(self, name: str, within: float | None = None) -> dict[str, Any]:
        """The next message. A wait that is interrupted, as by a test's limit, shows the engine's stacks."""
        try:
            line = self._answers.get(timeout=within)
        except queue.Empty:
            where = stacks(self.pid)
            text = f"did not answer {name!r} within {within:.0f} s"
            raise self._failed(text, f"\nits stacks:\n{where}") from None
        except KeyboardInterrupt:
            raise
        except BaseException:
            print(stacks(self.pid), file=sys.stderr)
            raise
        if not line:
            self._answers.put(line)  # the next call ends here too
            raise self._failed(f"died during {name!r}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RequestRefused(f"SGLang refused {name!r}: {answer['error']}")
        return answer

    def _failed(self, what: str, more: str = "") -> EngineFailed:
        self._reader.join(2)
        tail = "\n".join(self._lines[-_LAST_LINES:])
        return EngineFailed(f"SGLang {what}; its last lines:\n{tail}{more}")

    def _end_start(self) -> None:
        """Nothing of a failed start goes on."""
        kill_tree(self.pid)
        self._process.wait(10)
        self._folder.cleanup()

    def _read_answers(self) -> None:
        """Queue each line of the answers, then an empty one for their end."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def _read_output(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._lines.append(line.rstrip("\n"))
            if self._on_line is not None:
                self._on_line(line.rstrip("\n"))


_DEFAULTS: dict[str, Any] = {
    "dtype": "float32",
    "sampling_backend": "pytorch",
    "mem_fraction_static": 0.5,
    "max_total_tokens": 8192,
    "log_level": "info",
    "random_seed": 0,
}
