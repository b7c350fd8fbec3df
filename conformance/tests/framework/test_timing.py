"""What checks of speed count: not the pages that the system hands out anew in each run."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sglang_platform.conformance.fixtures.new_pages import new_pages, seconds_of_a_page
from sglang_platform.conformance.fixtures.timing import Work, compared

_SUBJECT: Any = SimpleNamespace(synchronize=lambda: None)


def _fresh() -> None:
    """64 MiB, more than glibc keeps for the next block."""
    torch.ones(64 << 20, dtype=torch.uint8)


def test_new_pages_are_counted_and_not_timed() -> None:
    before = new_pages()
    _fresh()
    touched = new_pages() - before
    if touched * seconds_of_a_page() < 0.005:
        pytest.skip("large pages, or a system that is quick with them: nothing to leave out")
    once, _ = compared(_SUBJECT, Work(_fresh), Work(lambda: time.sleep(0.001)), 1e9)
    started = time.perf_counter()
    _fresh()
    assert once < time.perf_counter() - started


def test_work_without_new_pages_keeps_its_time() -> None:
    long, short = compared(
        _SUBJECT, Work(lambda: time.sleep(0.05)), Work(lambda: time.sleep(0.005)), most=1e9
    )
    assert long >= 0.05
    assert short >= 0.005
