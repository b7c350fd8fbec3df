"""The command `sglang-platform`; `docs/command.md` is its page.

Exit status: 0 all is well, 1 a problem was found or the platform is refused, 2 the command was not understood, 3 not
all could be looked at, or the command itself failed, with the error and its place on standard error; 130 after Ctrl-C,
141 where the reader of the output went away, as a shell counts both.
With `--json` standard output holds one JSON document and nothing else.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn, TextIO

__all__ = ["ends_quietly", "main", "own_faults_told"]

_INTERRUPTED = 128 + signal.SIGINT
_READER_GONE = 128 + signal.SIGPIPE
_LOOK_AGAIN = 0.1
"""Seconds."""


def main() -> None:
    """Run the command with the arguments of this process."""
    with own_faults_told():
        # Commands of other packages import `cli.output`, which brings no other command with it.
        from sglang_platform.core.cli.app import app

        app(prog_name="sglang-platform")


@contextlib.contextmanager
def own_faults_told() -> Iterator[None]:
    """Around a whole command, the last to hear of an error: a line on standard error, and status 3."""
    try:
        with ends_quietly():
            yield
    except Exception as error:  # noqa: BLE001  (of whatever kind it is)
        sys.exit(_own_fault(error))


@contextlib.contextmanager
def ends_quietly() -> Iterator[None]:
    """Around a whole command: Ctrl-C ends it with status 130, output that nobody reads any more with 141.

    What the encoding of the output lacks is written as an escape. Other errors pass.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever called: nobody wants to read it
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115, PTH123 - for the whole process
    sys.stdout = _Output.of(sys.stdout)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        with contextlib.suppress(ValueError):  # in a thread that no signal reaches
            signal.signal(signal.SIGINT, _interrupt)
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
            if signal.getsignal(signal.SIGALRM) is _interrupt and signal.setitimer(signal.ITIMER_REAL, 0)[0]:
                raise KeyboardInterrupt
    except BaseException as error:
        if _was_interrupted(error):
            sys.exit(_INTERRUPTED)
        raise


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Ctrl-C: KeyboardInterrupt, once torch is imported. Raised while it is, torch's C++ code loses it, or aborts."""
    while frame is not None:
        if frame.f_globals.get("__name__") == "torch" and frame.f_code.co_name == "<module>":
            signal.signal(signal.SIGALRM, _interrupt)
            signal.setitimer(signal.ITIMER_REAL, _LOOK_AGAIN)
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _was_interrupted(error: BaseException) -> bool:
    """Whether Ctrl-C is behind it: Python makes a RuntimeError of what a class raises while it is made."""
    # A command that ends well does without.
    from sglang_platform.core.errors import cause_chain

    if isinstance(error, SystemExit):
        return False
    return any(isinstance(link, KeyboardInterrupt) for link in cause_chain(error))


class _Output(io.TextIOWrapper):
    """Standard output that ends the process where its reader has gone: Click and rich would end it as a failure."""

    _opened: TextIO

    @classmethod
    def of(cls, stream: TextIO) -> TextIO:
        """`stream` itself where it is not what Python opened, which a test may have replaced."""
        if type(stream) is not io.TextIOWrapper:
            return stream
        errors = "backslashreplace" if stream.errors == "strict" else stream.errors
        output = cls(stream.buffer, stream.encoding, errors, line_buffering=stream.line_buffering)
        output._opened = stream  # which closes the buffer when it goes
        return output

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except BrokenPipeError:
            self._end()

    def flush(self) -> None:
        try:
            super().flush()
        except BrokenPipeError:
            self._end()

    def _end(self) -> NoReturn:
        # What is still in the buffer is flushed once more when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
        sys.exit(_READER_GONE)


def _own_fault(error: Exception) -> int:
    # Only for this message.
    from sglang_platform.core.errors import PlatformError, explain

    failure = PlatformError(
        "sglang-platform could not finish this command",
        why=explain(error),
        fix=_way_out(error),
    )
    with contextlib.suppress(OSError):
        print(failure, file=sys.stderr)
    return 3


def _way_out(error: Exception) -> str:
    try:
        os.getcwd()  # noqa: PTH109 - it starts faster so
    except OSError:
        return "the folder that this shell is in was removed: change to another"
    if isinstance(error, ImportError | SyntaxError):
        return "install it and its dependencies again: pip install --force-reinstall sglang-platform-core"
    if isinstance(error, OSError):
        return "make room, or give places that can be read and written"
    return "what it was given or reads is damaged, or nested deeper than Python can follow: leave it out"
