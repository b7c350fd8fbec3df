"""Import a plugin's module and call its `activate()` in a process that has torch, and tell what that left behind.

Given: `module`, `attribute`; `preload`: modules of others that the plugin imports, whose own traces are not its.
Told: `changes` by group (`traces.py`), `printed`, `written` (files opened to be written, folders made), `registered`
(functions that the plugin lets run at exit or at a fork), `seconds` of import and call beside `floor_seconds`, which is
the import of `FLOOR`. Where a platform is named: `platform`, what importing its class did, in the same words,
its `place` and the modules `imported` with it.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import pkgutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from sglang_platform.conformance.probes import tell
from sglang_platform.conformance.probes.traces import TRACES, changes, read_all

__all__ = ["FLOOR", "Recorder", "captured", "observed", "undisturbed"]

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_NO_FILES = ("/dev/", "/proc/", "/sys/")


class Recorder:
    """What is written and registered while it listens."""

    def __init__(self) -> None:
        self.listening = False
        self.written: list[str] = []
        self.registered: list[tuple[str, str]] = []
        """(module that did it, function and when it runs)"""
        sys.addaudithook(self._heard)
        atexit.register = self._around(atexit.register, "at exit")  # type: ignore[assignment]
        os.register_at_fork = self._around(os.register_at_fork, "at a fork")  # type: ignore[assignment]

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.listening:
            return
        if event == "open":
            path, mode, flags = arguments
            writes = any(letter in mode for letter in "wax+") if isinstance(mode, str) else flags & _WRITES
            if writes:
                self._wrote(path)
        elif event in ("os.mkdir", "os.symlink", "os.link", "os.truncate", "shutil.copyfile"):
            self._wrote(
                arguments[1] if event in ("os.symlink", "os.link", "shutil.copyfile") else arguments[0]
            )

    def _wrote(self, path: Any) -> None:
        text = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
        if text and "__pycache__" not in text and not text.startswith(_NO_FILES):
            self.written.append(text)

    def _around(self, register: Callable[..., Any], when: str) -> Callable[..., Any]:
        def recorded(*functions: Any, **named: Any) -> Any:
            for function in (*functions[:1], *named.values()):
                if self.listening and callable(function):
                    by = sys._getframe(1).f_globals.get("__name__", "")
                    self.registered.append((by, f"{function.__module__}.{function.__qualname__} {when}"))
            return register(*functions, **named)

        return recorded


@contextlib.contextmanager
def captured(told: dict[str, Any], *descriptors: int) -> Iterator[None]:
    """What is written to these descriptors goes into a file meanwhile, by native code and by children too."""
    sys.stdout.flush()
    sys.stderr.flush()
    with tempfile.TemporaryFile() as file:
        kept = [(one, os.dup(one)) for one in descriptors]
        for one in descriptors:
            os.dup2(file.fileno(), one)
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for one, before in kept:
                os.dup2(before, one)
                os.close(before)
            file.seek(0)
            told["printed"] = file.read(4000).decode(errors="replace")


def undisturbed() -> float:
    """Seconds of a clock that stands while this thread waits for a processor that others have; where the system does
    not tell, it never stands."""
    try:
        waited = int(Path("/proc/thread-self/schedstat").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        waited = 0
    return time.perf_counter() - waited / 1e9


FLOOR = ("asyncio", "email.mime.multipart", "http.server", "sqlite3", "unittest.mock", "xml.dom.minidom")
"""Some hundred modules of the standard library: what an import of ordinary size costs on this machine, now."""


def look(given: dict[str, Any]) -> dict[str, Any]:
    for name in given["preload"]:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    started = undisturbed()
    for name in FLOOR:
        importlib.import_module(name)
    told: dict[str, Any] = {"floor_seconds": undisturbed() - started}
    recorder = Recorder()
    groups = {trace.group for trace in TRACES}
    before = read_all(groups)
    answer = None
    with captured(told, 1, 2):
        recorder.listening = True
        started = undisturbed()
        try:
            function: Any = importlib.import_module(given["module"])
            for part in given["attribute"].split("."):
                function = getattr(function, part)
            answer = function()
        except BaseException as error:  # noqa: BLE001 - other checks tell what is wrong with it
            told["raised"] = f"{type(error).__name__}: {error}"
        told["seconds"] = undisturbed() - started
        recorder.listening = False
    told["changes"] = changes(before, read_all(groups))
    own = given["module"].partition(".")[0] + "."
    told["registered"] = [
        one for by, one in recorder.registered if f"{by}.".startswith(own) or one.startswith(own)
    ]
    told["written"] = recorder.written
    if isinstance(answer, str):
        told["platform"] = {**observed(partial(pkgutil.resolve_name, answer)), "place": answer}
        told["platform"]["host"] = "sglang" in sys.modules
    return told


def observed(call: Callable[[], Any]) -> dict[str, Any]:
    """What `call` did: `changes`, the modules `imported`, `printed`, `seconds`, and `raised` where it did."""
    groups = {trace.group for trace in TRACES}
    told: dict[str, Any] = {}
    before = read_all(groups)
    known = set(sys.modules)
    with captured(told, 1):
        started = undisturbed()
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - another check tells what is wrong with it
            told["raised"] = f"{type(error).__name__}: {error}"
        told["seconds"] = undisturbed() - started
    told["changes"] = changes(before, read_all(groups))
    told["imported"] = sorted(set(sys.modules) - known)
    return told


if __name__ == "__main__":
    tell(look)
