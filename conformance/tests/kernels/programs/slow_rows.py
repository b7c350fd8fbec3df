"""A group of rows for `gpu_all.py` of two seconds each, more than a small budget holds."""

import time
from collections.abc import Iterator

from gpu_rows import Built, Row


def rows() -> Iterator[Row]:
    for number in range(400):
        yield Row(
            "slow",
            {"number": number},
            "memory",
            8,
            lambda device: Built({"sglang_platform": lambda: time.sleep(2)}, 8),
        )
