"""Pieces that die in every way: each is told, and the others are done all the same. Prints `told`."""

import os
import signal
import time
from collections.abc import Callable

from children import Children, Ended, Note

ENDS: dict[int, Callable[[], None]] = {
    2: lambda: os.kill(os.getpid(), signal.SIGSEGV),
    3: lambda: os._exit(7),
    5: lambda: time.sleep(60),
    6: lambda: os._exit(0),  # as a sanitizer may that is told to leave the status alone
}


def piece(number: int, note: Note) -> int:
    note(10 * number)
    ENDS.get(number, lambda: None)()
    return number


ended: list[Ended] = []
children = Children(lambda: None, piece, patience=1)
assert children.run_all(0, 8, ended.append) == [0, 1, 4, 7]
children.close()
assert ended == [
    (2, 20, "SIGSEGV"),
    (3, 30, "ended with 7"),
    (5, 50, "no answer for 1 s"),
    (6, 60, "ended with 0"),
], ended
print("told")
