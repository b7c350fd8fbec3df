"""Runs a function in a forked process and reports how that process ended: with a result, by a crash, or not in time.

Code of plugins can end its process without an exception: `os._exit`, a signal, an abort in a native library. The
watcher survives it, and knows the place in the code where Python can tell one.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import re
import select
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from typing import IO, Any, NamedTuple, NoReturn

__all__ = ["ProcessEnd", "StackFrame", "watch"]

_DONE = "done"
_LOOK = 0.05
"""Seconds between two looks at a process that sends nothing."""
_TO_BEGIN = 5.0
"""Seconds until the first message."""
_TO_DUMP = 2.0
"""Seconds that a process has to write its stack."""
_FRAME = re.compile(r'File "(.+)", line (\d+) in (.+)')


class StackFrame(NamedTuple):
    """One call on the stack."""

    file: str
    line: int
    function: str


class ProcessEnd(NamedTuple):
    """How a process ended that gave no result."""

    how: str
    seconds: float
    """Since its last message."""
    stack: tuple[StackFrame, ...]
    """Innermost first; empty where Python could not tell."""
    is_interrupt: bool = False


def watch(
    function: Callable[[Callable[[Any], None]], None],
    heard: Callable[[Any], float],
) -> ProcessEnd | None:
    """Call `function(tell)` in a forked process, and `heard(message)` here for each `tell(message)` there.

    heard: returns how many seconds the process may take until its next message.

    Returns None if `function` returned. Messages are written as JSON.
    """
    with tempfile.TemporaryFile() as stacks:
        reads, writes = os.pipe()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # else the other process would write the buffer too
                stream.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a timer thread is harmless: the other process does not use it
            pid = os.fork()
        if pid == 0:
            os.close(reads)
            _run(function, writes, stacks)
        os.close(writes)
        try:
            return _Watcher(pid, reads, stacks, heard).result()
        finally:
            os.close(reads)


class _Watcher:
    """The watching side of one process."""

    def __init__(self, pid: int, reads: int, stacks: IO[bytes], heard: Callable[[Any], float]) -> None:
        self.pid, self.reads, self.stacks, self.heard = pid, reads, stacks, heard
        self.status: int | None = None
        self.limit = _TO_BEGIN

    def result(self) -> ProcessEnd | None:
        try:
            return self._until_it_ends()
        finally:
            if self.status is None:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)

    def _until_it_ends(self) -> ProcessEnd | None:
        buffer, started = b"", time.monotonic()
        is_open = True
        while True:
            ended = self._has_ended()  # before the read, so that nothing it sent is missed
            ready = is_open and select.select([self.reads], [], [], 0 if ended else _LOOK)[0]
            if ready:
                part = os.read(self.reads, 1 << 16)
                is_open, buffer = bool(part), buffer + part
                *lines, buffer = buffer.split(b"\n")
                for message in map(json.loads, lines):
                    if message == _DONE:
                        return None
                    self.limit, started = self.heard(message), time.monotonic()
                continue
            seconds = time.monotonic() - started
            if ended:
                assert self.status is not None
                code = os.waitstatus_to_exitcode(self.status)
                return ProcessEnd(_how(code), seconds, self._stack(), code == -signal.SIGINT)
            if seconds > self.limit:
                return ProcessEnd(f"did not come back within {self.limit:.0f} s", seconds, self._dumped())
            if not is_open:
                time.sleep(_LOOK)

    def _has_ended(self) -> bool:
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = status if pid else None
        return self.status is not None

    def _dumped(self) -> tuple[StackFrame, ...]:
        """Where the process is now."""
        size = os.fstat(self.stacks.fileno()).st_size
        os.kill(self.pid, signal.SIGUSR1)
        until = time.monotonic() + _TO_DUMP
        while time.monotonic() < until and not self._has_ended():
            time.sleep(_LOOK)
            grown = os.fstat(self.stacks.fileno()).st_size
            if grown > size:
                time.sleep(_LOOK)
                return self._stack()
        return ()

    def _stack(self) -> tuple[StackFrame, ...]:
        number = self.stacks.fileno()  # whose offset both processes share
        text = os.pread(number, os.fstat(number).st_size, 0).decode("utf-8", "replace")
        last = text.rpartition("(most recent call first):")[2]
        return tuple(StackFrame(file, int(line), name) for file, line, name in _FRAME.findall(last))


def _how(code: int) -> str:
    if code >= 0:
        return f"ended the process with status {code}"
    with contextlib.suppress(ValueError):
        return f"ended the process by {signal.Signals(-code).name}"
    return f"ended the process by signal {-code}"


def _run(function: Callable[[Callable[[Any], None]], None], writes: int, stacks: IO[bytes]) -> NoReturn:
    """The watched side. Nothing of the caller runs after it."""
    own, end = os.getpid(), os._exit
    try:
        for number in (signal.SIGINT, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        sys.stdout = sys.stderr  # what plugins print must not spoil a document
        os.dup2(2, 1)  # nor what native code prints
        faulthandler.enable(stacks, all_threads=False)
        faulthandler.register(signal.SIGUSR1, stacks, all_threads=False)

        def noted_end(status: int) -> NoReturn:
            if os.getpid() == own:
                faulthandler.dump_traceback(stacks, all_threads=False)
            end(status)

        os._exit = noted_end

        def tell(message: Any) -> None:
            if os.getpid() != own:  # a plugin forked, and its child came back
                end(0)
            rest = json.dumps(message, default=str).encode() + b"\n"
            while rest:
                rest = rest[os.write(writes, rest) :]

        function(tell)
        tell(_DONE)
    except BaseException:  # noqa: BLE001  (its caller's frames must not see it)
        with contextlib.suppress(BaseException):
            traceback.print_exc()
        end(1)
    finally:
        with contextlib.suppress(BaseException):
            sys.stderr.flush()
        end(0)
    raise AssertionError
