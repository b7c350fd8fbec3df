"""The memory image and the allocator's model, on right and on wrong histories."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from sglang_platform.conformance.oracles.allocator_history import AllocatorHistory
from sglang_platform.conformance.oracles.allocator_model import AllocatorFault, AllocatorModel
from sglang_platform.conformance.oracles.allocator_search import PAGES, STEPS, Step, Walk, search
from sglang_platform.conformance.oracles.memory_image import MemoryImage


def test_an_image_says_where_and_what() -> None:
    image = MemoryImage({"keys": (6, 4), "values": (6, 4)}, seed=1)
    row = np.array([[1, 2, 3, 4]], np.uint8)
    image.store("keys", [2], row)
    found = image.poison["keys"].copy()
    lost = image.difference("keys", found)
    assert lost is not None
    assert (lost.slots, lost.byte, lost.still_poison) == ([2], 0, True)
    found[3] = row
    misplaced = image.difference("keys", found)
    assert misplaced is not None
    assert misplaced.slots == [2, 3]
    found[2] = row
    stray = image.difference("keys", found)
    assert stray is not None
    assert (stray.slots, stray.not_to_be_written, stray.looks_like) == ([3], True, "keys, slot 2")
    found[3] = image.poison["keys"][3]
    assert image.difference("keys", found) is None
    image.move([0, 1], [1, 2])
    np.testing.assert_array_equal(image.read("keys", [0, 1]), np.stack([image.poison["keys"][1], row[0]]))


@pytest.mark.parametrize(
    ("slots", "says"),
    [
        ([0], "padding page"),
        ([20], "the last one is 15"),
        ([4], "in use by request 1"),
        ([9], "place 1 of page 2"),
        ([8, 8], "place 0 of page 2"),
        ([8, 13], "last page is 2"),
        ([8, 9, 10, 11, 8], "which the request has already"),
    ],
)
def test_the_model_refuses_what_may_not_be_handed_out(slots: list[int], says: str) -> None:
    model = AllocatorModel(pages=3, page_size=4)
    model.grew(1, [4, 5])
    with pytest.raises(AllocatorFault, match=says):
        model.grew(2, slots)


def test_the_model_counts() -> None:
    model = AllocatorModel(pages=3, page_size=4)
    model.grew(1, [4, 5])
    model.grew(2, [8, 9, 10, 11, 12])
    assert model.available() == 0
    assert model.pages_for(2, 4) == 0
    assert model.pages_for(2, 5) == 1
    model.held_by_group = np.zeros(0, np.int64)
    assert model.shortened(2, 4).tolist() == [12]
    assert model.available() == 0
    model.held_by_group = None
    assert model.available() == 4


def test_a_shared_prefix_is_free_when_nobody_has_it() -> None:
    model = AllocatorModel(pages=3, page_size=4)
    model.grew(1, [4, 5, 6, 7, 8])
    model.fork(1, 2, 1)
    with pytest.raises(AllocatorFault, match="page 2 is in use by request 1"):
        model.grew(2, [8])
    model.grew(2, [12])
    assert (model.shared(1), model.available()) == (4, 0)
    assert model.shortened(1, 0).tolist() == [8]
    assert model.shortened(2, 0).tolist() == [4, 5, 6, 7, 12]
    assert model.available() == 12


class Simple:
    """A right allocator, written for this test: pages in a list."""

    def __init__(self, size: int, page_size: int, need_sort: bool) -> None:
        self.device, self.page_size, self.need_sort = "cpu", page_size, need_sort
        self.pages = list(range(1, size // page_size + 1))
        self.group: list[int] | None = None

    def available_size(self) -> int:
        return len(self.pages) * self.page_size

    def alloc(self, need: int) -> Any:
        count = need // self.page_size
        if count > len(self.pages):
            return None
        taken, self.pages = self.pages[:count], self.pages[count:]
        return torch.tensor([p * self.page_size + i for p in taken for i in range(self.page_size)]).long()

    def alloc_extend(
        self, prefix: Any, prefix_cpu: Any, seq: Any, seq_cpu: Any, last: Any, total: int
    ) -> Any:
        pages = list(self.pages)
        slots = []
        for start, end, at in zip(prefix_cpu.tolist(), seq_cpu.tolist(), last.tolist(), strict=True):
            for token in range(start, end):
                if token % self.page_size == 0:
                    if not pages:
                        return None
                    at = pages.pop(0) * self.page_size - 1
                at += 1
                slots.append(at)
        self.pages = pages
        return torch.tensor(slots).long()

    def alloc_decode(self, seq: Any, seq_cpu: Any, last: Any) -> Any:
        return self.alloc_extend(None, seq_cpu - 1, None, seq_cpu, last, len(seq_cpu))

    def free(self, slots: Any) -> None:
        pages = sorted({s // self.page_size for s in slots.tolist()})
        if self.group is None:
            self.give_back(pages)
        else:
            self.group += pages

    def give_back(self, pages: list[int]) -> None:
        self.pages = sorted(pages + self.pages) if self.need_sort else pages + self.pages

    def free_group_begin(self) -> None:
        self.group = []

    def free_group_end(self) -> None:
        pages, self.group = self.group or [], None
        self.give_back(sorted(set(pages)))

    def clear(self) -> None:
        self.pages, self.group = list(range(1, PAGES + 1)), None


class LeaksOnePageOfThree(Simple):
    def free(self, slots: Any) -> None:
        super().free(
            slots if len({s // self.page_size for s in slots.tolist()}) < 3 else slots[: self.page_size]
        )


class TakesBeforeItKnows(Simple):
    def alloc(self, need: int) -> Any:
        if need // self.page_size > len(self.pages):
            self.pages = self.pages[:-1]
            return None
        return super().alloc(need)


class LosesWhatIsFreed(Simple):
    def free(self, slots: Any) -> None:
        pass


@pytest.mark.parametrize("page_size", [1, 2, 4, 16])
def test_a_right_allocator_passes(page_size: int) -> None:
    for seed in range(5):
        assert search(Simple, page_size, seed, walks=20) is None


@pytest.mark.parametrize(
    ("broken", "longest"), [(LeaksOnePageOfThree, 4), (TakesBeforeItKnows, 2), (LosesWhatIsFreed, 3)]
)
def test_the_shortest_failing_history_is_shown(broken: Any, longest: int) -> None:
    failure = search(broken, 4, 5)
    assert failure is not None
    assert "available_size()" in failure.what
    assert failure.calls[0].startswith("a = Allocator(")
    assert len(failure.calls) <= longest


def test_searches_repeat_with_their_seed() -> None:
    assert search(LeaksOnePageOfThree, 4, 5) == search(LeaksOnePageOfThree, 4, 5)


def test_every_step_is_legal_at_any_time() -> None:
    for name in STEPS:
        walk = Walk(AllocatorHistory(Simple, PAGES, 4))
        for a in range(8):
            for b in range(8):
                walk.take(Step(name, a, b))
