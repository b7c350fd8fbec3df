"""A start that hangs: this process waits for a child that waits for ever."""

from __future__ import annotations

import multiprocessing
import time


def wait_for_weights() -> None:
    print("child waits", flush=True)
    time.sleep(600)


def wait_for_the_child() -> None:
    child = multiprocessing.get_context("spawn").Process(target=wait_for_weights)
    child.start()
    child.join()


if __name__ == "__main__":
    wait_for_the_child()
