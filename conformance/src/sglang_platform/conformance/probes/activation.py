"""Import a plugin's module and call its `activate()`, and tell what else that did.

Given: `module`, `attribute`; `blocked`: modules whose import fails; `provided`: empty modules that are there though
nobody installed them; `fork`: also ask in a forked child, and in a thread that is not the first. Told beside the
answers: `missing`, the modules that somebody looked for and that are not installed.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import threading
import time
import traceback
from importlib.machinery import ModuleSpec
from typing import Any

from sglang_platform.conformance.probes import tell

_FORK_SECONDS = 20


class BlockingFinder:
    """An import finder that lets nothing of these modules through, as if they were not installed."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name.partition(".")[0] in self.names or name in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


class LastFinder:
    """The finder that is asked when no other has found a module: it makes the `provided` ones, empty, and remembers the
    rest, where code of the package `own` looked for it: the standard library tries modules of other Pythons."""

    def __init__(self, provided: list[str], own: str) -> None:
        self.provided, self.own = provided, own
        self.missing: set[str] = set()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        top = name.partition(".")[0]
        if top in self.provided:
            return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]
        if path is None and self._asked_by() == self.own:
            self.missing.add(top)
        return None

    @staticmethod
    def _asked_by() -> str:
        """The top package of the code that imports."""
        frame = sys._getframe(2)
        while frame.f_back is not None and (
            "importlib" in frame.f_code.co_filename or frame.f_globals.get("__name__") == __name__
        ):
            frame = frame.f_back
        return str(frame.f_globals.get("__name__")).partition(".")[0]

    def create_module(self, spec: ModuleSpec) -> None:
        """An ordinary one."""

    def exec_module(self, module: Any) -> None:
        """It has nothing."""


def contexts() -> list[str]:
    """The torch devices of which this process holds a context."""
    torch = sys.modules.get("torch")
    found = []
    for name in ("cuda", "xpu", "npu", "musa", "hpu", "mlu", "privateuseone"):
        initialised = getattr(getattr(torch, name, None), "is_initialized", None)
        try:
            if initialised is not None and initialised():
                found.append(name)
        except Exception:  # noqa: BLE001 - a device module that cannot tell holds no context
            continue
    return found


def ask(function: Any) -> dict[str, Any]:
    """The answer of an `activate()`, or what it raised."""
    try:
        return {"answer": function()}
    except BaseException as error:  # noqa: BLE001 - every way to end is an answer here
        reason = getattr(error, "reason", None)
        if type(error).__name__ == "PlatformUnavailable":
            return {"declined": str(reason or error)}
        return {"raised": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}


def in_fork(function: Any) -> dict[str, Any]:
    """The same in a forked child; a child that hangs is ended, and told."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, json.dumps(ask(function)).encode())
        finally:
            os._exit(0)
    os.close(write)
    until = time.monotonic() + _FORK_SECONDS
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            text = os.read(read, 1 << 16)
            return json.loads(text) if text else {"raised": f"the forked child ended with status {status}"}
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return {"raised": f"the forked child did not answer within {_FORK_SECONDS} s"}


def in_thread(function: Any) -> dict[str, Any]:
    """The same in a thread, as where a program makes its engine beside other work."""
    told: dict[str, Any] = {}
    thread = threading.Thread(target=lambda: told.update(ask(function)), daemon=True)
    thread.start()
    thread.join(_FORK_SECONDS)
    return told or {"raised": f"it did not answer within {_FORK_SECONDS} s"}


def look(given: dict[str, Any]) -> dict[str, Any]:
    if given.get("blocked"):
        sys.meta_path.insert(0, BlockingFinder(given["blocked"]))  # type: ignore[arg-type]
    last = LastFinder(given.get("provided", []), given["module"].partition(".")[0])
    sys.meta_path.append(last)  # type: ignore[arg-type]
    told: dict[str, Any] = {"before": {"contexts": contexts()}}
    known = set(sys.modules)
    try:
        module = importlib.import_module(given["module"])
        function: Any = module
        for part in given["attribute"].split("."):
            function = getattr(function, part)
    except BaseException as error:  # noqa: BLE001 - told to the check
        told["import_raised"] = f"{type(error).__name__}: {error}"
        told["trace"] = traceback.format_exc()
    else:
        told["asked"] = ask(function)
        told["again"] = ask(function)
        told["missing"] = sorted(last.missing)
        told["imported"] = sorted(set(sys.modules) - known)
        told["after"] = {"contexts": contexts()}
        told["replaced"] = [
            name
            for name, found in sys.modules.copy().items()
            if name not in known and name.startswith("sglang.") and getattr(found, "__spec__", None) is None
        ]
        if given.get("fork"):
            told["forked"] = in_fork(function)
            told["in_thread"] = in_thread(function)
    return told


if __name__ == "__main__":
    tell(look)
