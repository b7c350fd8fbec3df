"""A page that is not in use cannot be freed: the error names it, nothing changes, and nobody is lent it twice.

Always on the CPU, in numpy and in torch, whatever the debug mode is.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from small_parts import both, either_path, ints

from sglang_platform.core.errors import PlatformError
from sglang_platform.core.memory import free_list
from sglang_platform.core.memory.free_list import FreeList
from sglang_platform.core.memory.page_marks import LateMarks


def pages_of(slots: torch.Tensor, allocator: Any) -> torch.Tensor:
    return torch.unique(slots // allocator.page_size)


def twice(allocator: Any) -> None:
    held = allocator.alloc(8)
    allocator.free(held)
    allocator.free(held)


def one_of_many_twice(allocator: Any) -> None:
    held, other = allocator.alloc(allocator.page_size), allocator.alloc(8 - allocator.page_size)
    allocator.free(held)
    allocator.free(torch.cat((other, held)))


def twice_by_number(allocator: Any) -> None:
    pages = pages_of(allocator.alloc(8), allocator)
    allocator.free_page_ids(pages)
    allocator.free_page_ids(pages[:1])


def twice_in_one_call(allocator: Any) -> None:
    page = pages_of(allocator.alloc(8), allocator)[:1]
    allocator.free_page_ids(page.repeat(2))


def twice_as_a_segment(allocator: Any) -> None:
    held = allocator.alloc(8)
    allocator.free_segment(held, start_pos=0)
    allocator.free_segments([(held, 0)])


def twice_in_another_dtype(allocator: Any) -> None:
    held = allocator.alloc(8)
    allocator.free(held.int())
    allocator.free(held)


def twice_in_one_group(allocator: Any) -> None:
    page = pages_of(allocator.alloc(8), allocator)[:1]
    allocator.free_group_begin()
    allocator.free_page_ids(page)
    allocator.free_page_ids(page)
    allocator.free_group_end()


def before_and_in_a_group(allocator: Any) -> None:
    held = allocator.alloc(8)
    allocator.free(held)
    allocator.free_group_begin()
    allocator.free(held)
    allocator.free_group_end()


def after_a_merge(allocator: Any) -> None:
    held = allocator.alloc(allocator.size)
    allocator.free(held)
    allocator.merge_and_sort_free()
    allocator.free(held[:8])


def after_a_clear(allocator: Any) -> None:
    held = allocator.alloc(8)
    allocator.clear()
    allocator.free(held)


def after_a_resize(allocator: Any) -> None:
    held = allocator.alloc(8)
    allocator.resize(SimpleNamespace(max_total_num_tokens=2 * allocator.size))
    allocator.free(held)


def after_a_restore(allocator: Any) -> None:
    state = allocator.backup_state()
    held = allocator.alloc(8)
    allocator.restore_state(state)
    allocator.free(held)


def what_the_hosts_setter_made_free(allocator: Any) -> None:
    held = allocator.alloc(8)
    allocator.free_pages = torch.cat((pages_of(held, allocator), allocator.free_pages))
    allocator.free(held)


def never_lent(allocator: Any) -> None:
    allocator.alloc(8)
    allocator.free(ints(allocator.size))


TWICE: tuple[Callable[[Any], None], ...] = (
    *(
        twice,
        one_of_many_twice,
        twice_by_number,
        twice_in_one_call,
        twice_as_a_segment,
        twice_in_another_dtype,
    ),
    *(
        twice_in_one_group,
        before_and_in_a_group,
        after_a_merge,
        after_a_clear,
        after_a_resize,
        after_a_restore,
    ),
    *(what_the_hosts_setter_made_free, never_lent),
)


@both
@either_path
@pytest.mark.parametrize("need_sort", [False, True])
@pytest.mark.parametrize("free", TWICE, ids=lambda function: function.__name__)
def test_a_page_that_is_free_cannot_be_freed(
    make: Any, numpy: bool, need_sort: bool, free: Callable[[Any], None]
) -> None:
    allocator = make(size=24, need_sort=need_sort, use_numpy_on_cpu=numpy)
    with pytest.raises(PlatformError, match="pages freed twice: "):
        free(allocator)
    assert_lends_each_page_once(allocator)


@both
@either_path
@pytest.mark.parametrize("place", ["padding", "beyond", "far beyond", "negative", "very negative"])
def test_a_page_that_is_not_of_the_allocator_cannot_be_freed(make: Any, numpy: bool, place: str) -> None:
    allocator = make(use_numpy_on_cpu=numpy)
    held = allocator.alloc(8)
    slot = {
        "padding": 0,
        "beyond": allocator.size + allocator.page_size,
        "far beyond": 1 << 40,
        "negative": -1,
        "very negative": -(1 << 40),
    }[place]
    with pytest.raises(PlatformError, match="never hands out"):
        allocator.free(torch.cat((held, ints(slot))))
    assert allocator.available_size() == allocator.size - 8
    allocator.free(held)
    assert_lends_each_page_once(allocator)


@both
@either_path
def test_slots_of_one_page_in_one_group_are_one_page(make: Any, numpy: bool) -> None:
    """What the scheduler does: it frees a page slot by slot while a group is open."""
    allocator = make(use_numpy_on_cpu=numpy)
    held = allocator.alloc(8)
    allocator.free_group_begin()
    for slot in held.split(1):
        allocator.free(slot)
    allocator.free_group_end()
    assert allocator.available_size() == allocator.size
    assert_lends_each_page_once(allocator)


def test_on_another_device_frees_are_counted_and_not_looked_up() -> None:
    """A look-up would wait for the device; in debug mode it does."""
    free = FreeList(8, torch.device("meta"))
    free.drop(2)
    for give in (free.put, free.stage):
        with pytest.raises(PlatformError, match="SGLANG_PLATFORM_DEBUG_MEMORY"):
            give(torch.empty(3, dtype=torch.int64, device="meta"))


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allocators look up what is freed as on a device that is never waited for."""

    def marks(capacity: int, like: Any, *, debug: bool) -> LateMarks:
        return LateMarks(capacity, like, torch.zeros(1, dtype=torch.int64))

    monkeypatch.setattr(free_list, "page_marks", marks)


@both
@pytest.mark.usefixtures("late")
@pytest.mark.parametrize("need_sort", [False, True])
@pytest.mark.parametrize("free", TWICE, ids=lambda function: function.__name__)
def test_a_device_tells_at_a_later_call(make: Any, need_sort: bool, free: Callable[[Any], None]) -> None:
    allocator = make(size=24, need_sort=need_sort, use_numpy_on_cpu=False)

    def go_on() -> None:
        free(allocator)
        for _ in range(3):
            allocator.alloc(allocator.page_size)
            allocator.merge_and_sort_free()

    with pytest.raises(PlatformError, match="freed"):  # by the count alone, where too many come back
        go_on()


@both
@pytest.mark.usefixtures("late")
@pytest.mark.parametrize("slot", [0, 100, 1 << 40, -1, -(1 << 40)])
def test_a_device_tells_of_pages_of_nobody(make: Any, slot: int) -> None:
    allocator = make(size=24, use_numpy_on_cpu=False)
    allocator.alloc(8)
    allocator.free(ints(slot))
    with pytest.raises(PlatformError, match="was freed by an earlier call, and was not in use"):
        allocator.alloc(allocator.page_size)


def assert_lends_each_page_once(allocator: Any) -> None:
    free = allocator.get_all_free_pages().tolist()
    assert len(free) == len(set(free))
    assert set(free) <= set(range(1, allocator.num_pages + 1))
    slots = allocator.alloc(allocator.available_size()).tolist()
    assert len(slots) == len(set(slots))
