"""Calls a function in a fresh interpreter, and reports how that process ended if the function did not return.

Code of plugins can end its process without an exception: `os._exit`, a signal, an abort in a native library. The caller
survives it, and knows the place in the code where Python can tell one.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Protocol

from sglang_platform.core.installed.modules import interpreter_flags

__all__ = ["ProcessEnd", "StackFrame", "Tell", "run"]

_PROGRAM = (
    "import json, sys; folder = sys.argv[1]; asked = json.load(open(f'{folder}/asked')); "
    "sys.path[:] = asked.pop('path'); "
    "from sglang_platform.core.discovery.own_process import answer; answer(folder, **asked)"
)
_DONE = '"done"'
_LOOK = 0.02
"""Seconds between two looks at the process."""
_TO_END = 5.0
"""Seconds over its limit until a process that did not end itself is killed."""
_FRAME = re.compile(r'File "(.+)", line (\d+) in (.+)')


class Tell(Protocol):
    """Passes a message, which is written as JSON, to the caller of `run`.

    limit: how many seconds the process may take until its next message; without it the last limit holds.
    """

    def __call__(self, message: Any, limit: float | None = None) -> None: ...


class StackFrame(NamedTuple):
    """One call on the stack."""

    file: str
    line: int
    function: str


class ProcessEnd(NamedTuple):
    """How a process ended that did not return."""

    how: str
    seconds: float
    """Since its last message."""
    stack: tuple[StackFrame, ...]
    """Innermost first; empty where Python could not tell."""
    output: str
    """The last lines that it printed; empty where they went to standard error."""


def run(
    call: str,
    asked: Any,
    heard: Callable[[Any], None],
    limit: float,
    *,
    shows_output: bool = False,
    environment: Mapping[str, str] | None = None,
) -> ProcessEnd | None:
    """Call `call(asked, tell)` in a fresh interpreter, and `heard(message)` here for each `tell(message)` there.

    call: "pkg.mod:function". limit: how many seconds the process may take until its first message.

    Returns None if `call` returned. Raises KeyboardInterrupt if the process ended by one.
    """
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for file in ("messages", "stacks", "output"):
                (folder / file).touch()
            text = json.dumps({"path": sys.path, "call": call, "asked": asked, "limit": limit}, default=str)
            (folder / "asked").write_text(text, encoding="utf-8")
            with (folder / "output").open("wb") as output:
                stream = (
                    2 if shows_output else output
                )  # no pipe: a process that it leaves behind would hold it
                process = subprocess.Popen(
                    [sys.executable, *interpreter_flags(), "-c", _PROGRAM, name],
                    stdout=stream,
                    stderr=stream,
                    env=environment,
                )
            try:
                return _follow(process, folder, heard, limit)
            finally:
                process.kill()
                process.wait()
    except OSError as error:
        return ProcessEnd(f"cannot be run in a process of its own: {error}", 0.0, (), "")


def _follow(
    process: subprocess.Popen[bytes], folder: Path, heard: Callable[[Any], None], limit: float
) -> ProcessEnd | None:
    buffer, started = "", time.monotonic()
    with (folder / "messages").open(encoding="utf-8") as messages:
        while True:
            status = process.poll()  # before the read, so that nothing it wrote is missed
            *lines, buffer = (buffer + messages.read()).split("\n")
            for line in lines:
                if line == _DONE:
                    return None
                message, limit = json.loads(line)
                heard(message)
                started = time.monotonic()
            seconds = time.monotonic() - started
            if status is not None or seconds > limit + _TO_END:
                return _end(status, seconds, limit, folder)
            time.sleep(_LOOK)


def _end(status: int | None, seconds: float, limit: float, folder: Path) -> ProcessEnd:
    stacks, output = ((folder / name).read_text(errors="backslashreplace") for name in ("stacks", "output"))
    if status == -signal.SIGINT:
        raise KeyboardInterrupt
    hung = status is None or "Timeout (" in stacks
    how = f"did not come back within {limit:.0f} s" if hung else _how(status or 0)
    frames = _FRAME.findall(stacks.rpartition("(most recent call first):")[2])  # the last is the main thread
    stack = tuple(StackFrame(file, int(line), function) for file, line, function in frames)
    return ProcessEnd(how, seconds, stack, "\n".join(output.strip().splitlines()[-5:]))


def _how(status: int) -> str:
    if status >= 0:
        return f"ended the process with status {status}"
    with contextlib.suppress(ValueError):
        return f"ended the process by {signal.Signals(-status).name}"
    return f"ended the process by signal {-status}"


def answer(folder: str, call: str, asked: Any, limit: float) -> NoReturn:
    """The program of the other process."""
    own, end = os.getpid(), os._exit
    status, patience = 1, limit
    with open(f"{folder}/stacks", "w") as stacks, open(f"{folder}/messages", "w") as messages:  # noqa: PTH123

        def tell(message: Any, limit: float | None = None) -> None:
            nonlocal patience
            if os.getpid() != own:  # a plugin forked, and its child came back
                end(0)
            patience = limit or patience
            faulthandler.dump_traceback_later(patience, exit=True, file=stacks)
            messages.write(json.dumps([message, patience], default=str) + "\n")
            messages.flush()

        def noted_end(status: int) -> NoReturn:
            if os.getpid() == own:
                faulthandler.dump_traceback(stacks, all_threads=False)
            end(status)

        try:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            faulthandler.enable(stacks, all_threads=False)
            faulthandler.dump_traceback_later(limit, exit=True, file=stacks)
            os._exit = noted_end
            module, _, function = call.partition(":")
            getattr(importlib.import_module(module), function)(asked, tell)
            if os.getpid() == own:
                messages.write(f"{_DONE}\n")
                messages.flush()
            status = 0
        except BaseException:  # noqa: BLE001  (the end of the process is the answer)
            traceback.print_exc()
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
        end(status)
