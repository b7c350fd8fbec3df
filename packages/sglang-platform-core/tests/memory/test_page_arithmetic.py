"""Slots of an extend and a decode step, against a loop over tokens."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sglang_platform.core.errors import PlatformError
from sglang_platform.core.memory import page_arithmetic as pages

requests = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300)), min_size=1, max_size=8)
page_sizes = st.sampled_from([1, 2, 3, 16, 64])


def walk(start: int, end: int, last: int, page_size: int, free: list[int]) -> list[int]:
    """Token by token: the next slot, or the first of the next free page."""
    slots = []
    for position in range(start, end):
        last = free.pop(0) * page_size if position % page_size == 0 else last + 1
        slots.append(last)
    return slots


@settings(max_examples=150, deadline=None)
@given(requests, page_sizes, st.sampled_from([np.int64, np.int32]), st.randoms())
def test_extend(lens: list[tuple[int, int]], page_size: int, dtype: type, random: object) -> None:
    prefix = np.array([p for p, _ in lens], dtype)
    seq = np.array([p + more for p, more in lens], dtype)
    last = np.array(
        [1000 * page_size * (i + 1) + (p - 1) % page_size if p else -1 for i, (p, _) in enumerate(lens)]
    )
    needed = pages.count_extend_pages(prefix, seq, page_size)
    free = list(range(1, needed + 1))
    random.shuffle(free)  # type: ignore[attr-defined]
    left = list(free)
    expected = [
        slot
        for p, s, at in zip(prefix.tolist(), seq.tolist(), last.tolist(), strict=True)
        for slot in walk(p, s, at, page_size, left)
    ]
    assert left == [], "count_extend_pages counted more than the walk used"

    total = len(expected)
    got = pages.extend_slots_on_host(
        prefix, seq, last.astype(dtype), np.array(free, np.int64), total, page_size
    )
    assert got.tolist() == expected
    assert got.dtype == np.int64

    out = torch.empty(total, dtype=torch.int64)
    pages.extend_slots_on_device(
        torch.from_numpy(prefix),
        torch.from_numpy(seq),
        torch.from_numpy(last.astype(dtype)),
        torch.tensor(free, dtype=torch.int64),
        out,
        page_size,
    )
    assert out.tolist() == expected


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=8),
    page_sizes,
    st.sampled_from([torch.int64, torch.int32]),
)
def test_decode(seq: list[int], page_size: int, dtype: torch.dtype) -> None:
    last = [1000 * page_size * (i + 1) + (s - 2) % page_size if s > 1 else -1 for i, s in enumerate(seq)]
    needed = pages.count_decode_pages(np.array(seq), page_size)
    free = list(range(needed, 0, -1))
    left = list(free)
    expected = [walk(s - 1, s, at, page_size, left)[0] for s, at in zip(seq, last, strict=True)]
    assert left == []
    out = torch.empty(len(seq), dtype=torch.int64)
    pages.decode_slots_on_device(
        torch.tensor(seq, dtype=dtype),
        torch.tensor(last, dtype=dtype),
        torch.tensor(free, dtype=torch.int64),
        out,
        page_size,
    )
    assert out.tolist() == expected


@given(st.lists(st.integers(0, 500), min_size=1), page_sizes)
def test_pages_of_slots(slots: list[int], page_size: int) -> None:
    got = pages.pages_of_slots_on_host(np.array(slots), page_size)
    assert got.tolist() == sorted({slot // page_size for slot in slots})


@pytest.mark.parametrize("batch", [1, 2])
def test_lengths_that_do_not_add_up_are_refused(batch: int) -> None:
    prefix, seq, last = np.zeros(batch, np.int64), np.full(batch, 5), np.full(batch, -1)
    enough = np.arange(1, 2 * batch + 1)
    with pytest.raises(PlatformError, match="contradicts"):
        pages.extend_slots_on_host(prefix, seq, last, enough[:-1], 5 * batch, 4)
    with pytest.raises(PlatformError, match="contradicts"):
        pages.extend_slots_on_host(prefix, seq, last, enough, 9 * batch, 4)
    with pytest.raises(PlatformError, match="contradicts"):
        pages.extend_slots_on_host(prefix, seq, last, enough, 1, 4)
