"""Memory of tensors given back and taken again, with and without what it held."""

from __future__ import annotations

import pytest
import torch

from sglang_platform.core.counters import snapshot
from sglang_platform.core.errors import PlatformError
from sglang_platform.core.memory.memory_saver import MemorySaver


def test_views_of_one_storage_are_one_release_and_come_back_whole() -> None:
    saver = MemorySaver()
    rows = torch.arange(12.0).view(3, 4)
    part, other = rows[1:], torch.ones(5)
    before = snapshot()["memory_saver.bytes_released"]
    saver.release("weights", [rows, part, other, torch.empty(0)], keep_content=True)
    assert snapshot()["memory_saver.bytes_released"] - before == 4 * (12 + 5)
    assert rows.untyped_storage().nbytes() == other.untyped_storage().nbytes() == 0
    assert saver.released() == ("weights",)
    saver.resume("weights")
    assert torch.equal(rows, torch.arange(12.0).view(3, 4))
    assert torch.equal(part, rows[1:])
    assert torch.equal(other, torch.ones(5))


def test_without_its_content_memory_comes_back_as_zeros() -> None:
    saver = MemorySaver()
    rows = torch.full((64, 64), float("nan"))
    saver.release("kv_cache", [rows])
    blocker = torch.full((64, 64), float("nan"))
    saver.resume("kv_cache")
    assert not rows.any()
    assert blocker.isnan().all()


def test_it_says_whether_anything_moved() -> None:
    saver = MemorySaver()
    rows = torch.zeros(1 << 20)
    before = rows.data_ptr()
    saver.release("kv_cache", [rows])
    keep = [torch.zeros(1 << 20) for _ in range(4)]
    assert saver.resume("kv_cache") is (rows.data_ptr() != before)
    assert len(keep) == 4


def test_a_second_release_and_an_early_resume_are_refused() -> None:
    saver = MemorySaver()
    with pytest.raises(PlatformError, match="'weights' is not released"):
        saver.resume("weights")
    saver.release("weights", [])
    with pytest.raises(PlatformError, match="'weights' is released already"):
        saver.release("weights", [])
