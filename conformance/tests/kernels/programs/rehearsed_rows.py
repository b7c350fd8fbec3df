"""A group of rows for `gpu_all.py` that go wrong in each way: one raises, one hangs, one kills its process."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator

import torch
from gpu_rows import Built, Row


def rows() -> Iterator[Row]:
    yield Row("good", {"number": 1}, "memory", 8, _row(lambda: None))
    yield Row("raises", {"number": 2}, "memory", 8, _row(_raise))
    yield Row("good", {"number": 3}, "memory", 8, _row(lambda: None))
    yield Row("hangs", {"number": 4}, "memory", 8, _row(lambda: time.sleep(600)))
    yield Row("dies", {"number": 5}, "memory", 8, _row(lambda: os.kill(os.getpid(), signal.SIGKILL)))
    yield Row("good", {"number": 6}, "memory", 8, _row(lambda: None))
    yield Row("on a wrong kernel", {"number": 7}, "memory", 8, _row(_raise), ("extend_slots",))
    yield Row("on a right kernel", {"number": 8}, "memory", 8, _row(lambda: None), ("decode_slots",))
    yield Row("on a kernel that dies", {"number": 9}, "memory", 8, _row(_raise), ("rms_norm",))


def _raise() -> None:
    raise RuntimeError("an illegal memory access was encountered\nand more about it")


def _row(run: Callable[[], object]) -> Callable[[torch.device], Built]:
    return lambda device: Built({"sglang_platform": run}, 8)
