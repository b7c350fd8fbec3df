"""An SGLang server in a process of its own, spoken to over HTTP as a client does."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from sglang_platform.conformance.host.engine import EngineFailed
from sglang_platform.conformance.host.stacks import kill_group, stacks
from sglang_platform.core import counters
from sglang_platform.core.counters import REPORT_DIR_VARIABLE

__all__ = ["ServerAnswer", "ServerProcess", "free_port"]

_LAST_LINES = 40
_ENDING_SECONDS = 5


class ServerAnswer(NamedTuple):
    """What the server answered; status 0 where it closed the connection without one."""

    status: int
    body: str

    def json(self) -> Any:
        return json.loads(self.body)


class ServerProcess:
    """Start `sglang.launch_server` on a platform, speak to it, stop it with all its children.

    `arguments` are the command line's options by their Python names; True is a bare flag, False and None leave it out.
    `module` and `python`: another program that serves HTTP, SGLang's router for example; `defaults={}` leaves out the
    options of an engine. With `wait=False` the caller waits itself (`wait_until_healthy`), as it must for the nodes of
    one server.
    """

    def __init__(
        self,
        platform: str | None,
        arguments: Mapping[str, Any],
        *,
        environment: Mapping[str, str] | None = None,
        module: str = "sglang.launch_server",
        python: str = sys.executable,
        defaults: Mapping[str, Any] | None = None,
        seconds: float = 240,
        wait: bool = True,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="sglang-platform-server-")
        self.report_dir = Path(self._folder.name) / "report"
        self.report_dir.mkdir()
        self.log = Path(self._folder.name) / "log"
        self.port = int(arguments.get("port") or free_port())
        self.url = f"http://127.0.0.1:{self.port}"
        given = {**(_DEFAULTS if defaults is None else defaults), **arguments}
        options = {"host": "127.0.0.1", **given, "port": self.port}
        variables = {
            **os.environ,
            REPORT_DIR_VARIABLE: str(self.report_dir),
            "PYTHONUNBUFFERED": "1",
            "HF_HUB_OFFLINE": "1",
            **({"SGLANG_PLATFORM": platform} if platform else {}),
            **(environment or {}),
        }
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [python, "-m", module, *_command_line(options)],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=variables,
                start_new_session=True,
            )
        if wait:
            try:
                self.wait_until_healthy(seconds)
            except BaseException as error:
                # One that is interrupted, as by a test's limit, has said nothing yet.
                if not isinstance(error, EngineFailed | KeyboardInterrupt):
                    print(stacks(self.process.pid), file=sys.stderr)
                self.close()
                raise

    def wait_until_healthy(self, seconds: float = 240) -> None:
        """Raises EngineFailed with the server's last lines where it ends; where it does not answer in time, with the
        stacks of its processes as well."""
        until = time.monotonic() + seconds
        while self.get("/health", timeout=5).status != 200:
            if not self.alive:
                raise self.failed("ended before it served")
            if time.monotonic() > until:
                where = stacks(self.process.pid)
                raise EngineFailed(
                    f"{self.failed(f'did not serve within {seconds:.0f} s')}\nits stacks:\n{where}"
                )
            time.sleep(0.3)

    @property
    def alive(self) -> bool:
        """Whether the server's process still runs."""
        return self.process.poll() is None

    def ended(self) -> bool:
        """Whether the process ends after it gave no answer: a connection is closed a moment before."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_ENDING_SECONDS)
        return not self.alive

    def post(self, path: str, body: Any = None, *, timeout: float = 120) -> ServerAnswer:
        """POST; `body` is sent as JSON, bytes as they are."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        return self._open(urllib.request.Request(self.url + path, data, headers, method="POST"), timeout)

    def get(self, path: str, *, timeout: float = 30) -> ServerAnswer:
        """GET."""
        return self._open(urllib.request.Request(self.url + path), timeout)

    def stream(self, path: str, body: Any, *, timeout: float = 120) -> Iterator[Any]:
        """POST, and each event of the stream as it comes, decoded. Raises urllib.error.HTTPError for a refusal."""
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers, method="POST")
        with urllib.request.urlopen(request, timeout=timeout) as response:
            for line in response:
                text = line.decode().strip()
                if text.startswith("data:") and text != "data: [DONE]":
                    yield json.loads(text.removeprefix("data:"))

    def counters(self) -> dict[str, int]:
        """The counts of the scheduler processes, summed."""
        total: dict[str, int] = {}
        for counts in counters.read_all(self.report_dir).values():
            if counts.get("host.process.scheduler"):
                for name, count in counts.items():
                    total[name] = total.get(name, 0) + count
        return total

    def memory(self) -> float:
        """Resident memory of the server's processes, summed, in MiB: all of its process group (Linux)."""
        pages = 0
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # a process may end while it is read
                group = int((folder / "stat").read_text().rpartition(")")[2].split()[2])
                if group == self.process.pid:
                    pages += int((folder / "statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def output(self) -> str:
        """All that the server's processes printed so far."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def failed(self, what: str) -> EngineFailed:
        """The error for a server that does not do what it should, with its last lines."""
        return EngineFailed(
            f"SGLang {what}; its last lines:\n" + "\n".join(self.output().splitlines()[-_LAST_LINES:])
        )

    def close(self) -> None:
        """Stop the server and every process that it started."""
        if self.alive:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(20)
        kill_group(self.process.pid)  # it leads its group, and its children stay in it
        self.process.wait(10)
        self._folder.cleanup()

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self, request: urllib.request.Request, timeout: float) -> ServerAnswer:
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                return ServerAnswer(response.status, response.read().decode(errors="replace"))
        except urllib.error.HTTPError as error:
            return ServerAnswer(error.code, error.read().decode(errors="replace"))
        except OSError as error:
            return ServerAnswer(0, f"{type(error).__name__}: {error}")


def free_port() -> int:
    """A port that nothing listens on now, below those of outgoing connections: SGLang adds up to 10,000 for others."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as found, contextlib.suppress(OSError):
            found.bind(("127.0.0.1", port))
            return port


def _command_line(options: Mapping[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        if value is None or value is False:
            continue
        yield f"--{name.replace('_', '-')}"
        if value is True:
            continue
        if isinstance(value, Sequence) and not isinstance(value, str):
            yield from map(str, value)
        else:
            yield str(value)


_DEFAULTS: dict[str, Any] = {
    "dtype": "float32",
    "sampling_backend": "pytorch",
    "mem_fraction_static": 0.5,
    "max_total_tokens": 8192,
    "page_size": 16,
    "random_seed": 0,
}
