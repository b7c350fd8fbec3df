"""Work done in forked processes, piece by piece: one that dies or stands still is told, and another goes on after it.

The parent has imported torch and not opened the device; so a child starts at once and has a device of its own.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

PLACE = struct.Struct("<qq")
OF_THE_PROGRAM = 97
"""What a child ends with that failed outside of what it tries."""

Note = Callable[[int], None]
Piece = Callable[[int, Note], Any]
"""`piece(number, note)` does one piece; `note(mark)` says how far it is; what it returns is kept as JSON."""


class Ended(NamedTuple):
    """A process that ended before its work did: at which piece, its last mark, and how."""

    number: int
    mark: int
    how: str


class Children:
    """Runs `piece` for numbers in order; `open` comes first in each child. `patience`: seconds for one mark."""

    def __init__(self, open_child: Callable[[], None], piece: Piece, patience: float) -> None:
        self.open_child, self.piece, self.patience = open_child, piece, patience
        self._place = mmap.mmap(-1, PLACE.size)
        self._out = Path(tempfile.mkstemp(suffix=".jsonl")[1])

    def run(self, first: int, last: int) -> Ended | None:
        """The pieces from `first` to before `last` in one child; None where it did them all."""
        PLACE.pack_into(self._place, 0, first, 0)
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            code = OF_THE_PROGRAM
            try:
                self._work(first, last)
                code = 0
            except Exception as error:  # noqa: BLE001 - of the program itself: no piece lets one out
                print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            finally:
                os._exit(code)
        how = self._wait(child)
        number, mark = PLACE.unpack_from(self._place)
        if how == _ending(OF_THE_PROGRAM << 8):
            raise SystemExit(f"the program failed at piece {number}")
        if how == _ending(0) and number == last:
            return None
        return Ended(number, mark, how)

    def run_all(self, first: int, last: int, ended: Callable[[Ended], None]) -> list[Any]:
        """What all pieces returned, in as many children as it takes; `ended` hears of each child that died."""
        number = first
        while number < last:
            found = self.run(number, last)
            if found is None:
                break
            ended(found)
            number = found.number + 1
        return self.kept()

    def kept(self) -> list[Any]:
        """What pieces have returned so far."""
        return [json.loads(line) for line in self._out.read_text().splitlines()]

    def close(self) -> None:
        self._out.unlink()

    def _work(self, first: int, last: int) -> None:
        self.open_child()
        with self._out.open("a", buffering=1) as file:
            for number in range(first, last):
                PLACE.pack_into(self._place, 0, number, 0)

                def note(mark: int, number: int = number) -> None:
                    PLACE.pack_into(self._place, 0, number, mark)

                file.write(json.dumps(self.piece(number, note)) + "\n")
        PLACE.pack_into(self._place, 0, last, 0)  # a status of 0 alone may be somebody's exit(0) on the way

    def _wait(self, child: int) -> str:
        seen, since = None, time.monotonic()
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return _ending(status)
            now = PLACE.unpack_from(self._place)
            if now != seen:
                seen, since = now, time.monotonic()
            elif time.monotonic() - since > self.patience:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return f"no answer for {self.patience:.0f} s"
            time.sleep(0.05)


def _ending(status: int) -> str:
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return f"ended with {os.WEXITSTATUS(status)}"
