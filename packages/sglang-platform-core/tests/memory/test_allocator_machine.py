"""Both allocators against a model that knows nothing but sets of pages."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from sglang_platform.core import PagedTokenToKVPoolAllocator, TokenToKVPoolAllocator
from sglang_platform.core.errors import PlatformError
from sglang_platform.core.memory import free_list
from sglang_platform.core.memory.page_marks import LateMarks

PAGES = 12


def ints(values: list[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


class AllocatorMachine(RuleBasedStateMachine):
    """`requests` maps a name to the slots it holds, in the order of its tokens. That is the whole model."""

    page_size: int
    paged: bool
    late = False

    @initialize(need_sort=st.booleans(), numpy=st.booleans(), debug=st.booleans(), rest=st.integers(0, 63))
    def start(self, need_sort: bool, numpy: bool, debug: bool, rest: int) -> None:
        base = PagedTokenToKVPoolAllocator if self.paged else TokenToKVPoolAllocator
        kind = type("Allocator", (base,), {"use_numpy_on_cpu": numpy and not self.late, "debug_mode": debug})
        size = PAGES * self.page_size + rest % self.page_size
        arguments: dict[str, Any] = {"dtype": torch.float16, "device": "cpu", "kvcache": None}
        if self.paged:
            arguments["page_size"] = self.page_size
        self.allocator = kind(size, need_sort=need_sort, **arguments)
        self.requests: dict[int, list[int]] = {}
        self.names = 0
        self.pending: set[int] | None = None
        self.saved: Any = None
        self.handed_out: list[tuple[torch.Tensor, list[int]]] = []

    # The model

    def pages_of(self, slots: list[int]) -> set[int]:
        return {slot // self.page_size for slot in slots}

    def used(self) -> set[int]:
        held = (
            set().union(*(self.pages_of(slots) for slots in self.requests.values()))
            if self.requests
            else set()
        )
        return held | (self.pending or set())

    def new_name(self) -> int:
        self.names += 1
        return self.names

    def accept(self, name: int, new: list[int]) -> None:
        """`new` continues request `name`: legal slots, and pages filled in order."""
        slots = self.requests.get(name, [])
        others = self.used() - self.pages_of(slots)
        own = self.pages_of(slots)
        for position, slot in enumerate(new, start=len(slots)):
            page, offset = divmod(slot, self.page_size)
            assert 1 <= page <= PAGES
            assert page not in others
            assert offset == position % self.page_size
            if offset:
                assert page == slots[-1] // self.page_size
            else:
                assert page not in own
                own.add(page)
            slots = [*slots, slot]
        self.requests[name] = slots

    def release(self, name: int) -> None:
        pages = self.pages_of(self.requests.pop(name))
        if self.pending is not None:
            self.pending |= pages

    def free_now(self) -> int:
        return PAGES - len(self.used())

    def pages_needed(self, before: int, after: int) -> int:
        return -(-after // self.page_size) - -(-before // self.page_size)

    # Calls

    @rule(pages=st.integers(0, PAGES + 1))
    def alloc(self, pages: int) -> None:
        fits = pages <= self.free_now()
        got = self.allocator.alloc(pages * self.page_size)
        assert (got is not None) == fits
        if got is not None:
            assert got.dtype == torch.int64
            assert got.tolist() == list(dict.fromkeys(got.tolist()))
            assert len(got) == pages * self.page_size
            self.handed_out.append((got, got.tolist()))
            self.accept(self.new_name(), got.tolist())

    @precondition(lambda self: self.paged)
    @rule(data=st.data(), fresh=st.lists(st.integers(0, 80), max_size=3), int32=st.booleans())
    def extend(self, data: st.DataObject, fresh: list[int], int32: bool) -> None:
        old = (
            data.draw(st.lists(st.sampled_from(sorted(self.requests)), unique=True)) if self.requests else []
        )
        batch = [(name, len(self.requests[name]), data.draw(st.integers(0, 70))) for name in old]
        batch += [(self.new_name(), 0, more) for more in fresh]
        random.Random(len(batch)).shuffle(batch)
        if not batch:
            return
        fits = sum(self.pages_needed(n, n + more) for _, n, more in batch) <= self.free_now()
        last = [self.requests[name][-1] if n else -1 for name, n, _ in batch]
        prefix, seq = ints([n for _, n, _ in batch]), ints([n + more for _, n, more in batch])
        given = (prefix.int(), seq.int(), ints(last).int()) if int32 else (prefix, seq, ints(last))
        total = sum(more for *_, more in batch)
        got = self.allocator.alloc_extend(given[0], prefix, given[1], seq, given[2], total)
        assert (got is not None) == fits
        if got is not None:
            assert got.dtype == torch.int64
            assert len(got) == total
            for (name, _, more), part in zip(batch, got.split([more for *_, more in batch]), strict=True):
                assert len(part) == more
                self.accept(name, part.tolist())

    @precondition(lambda self: self.paged and self.requests)
    @rule(data=st.data())
    def decode(self, data: st.DataObject) -> None:
        candidates = sorted(name for name, slots in self.requests.items() if slots)
        if not candidates:
            return
        names = data.draw(st.lists(st.sampled_from(candidates), min_size=1, unique=True))
        lens = [len(self.requests[name]) for name in names]
        fits = sum(self.pages_needed(n, n + 1) for n in lens) <= self.free_now()
        seq = ints([n + 1 for n in lens])
        last = ints([self.requests[name][-1] for name in names])
        got = self.allocator.alloc_decode(seq, seq, last)
        assert (got is not None) == fits
        if got is not None:
            assert got.dtype == torch.int64
            assert got.shape == (len(names),)
            for name, slot in zip(names, got.tolist(), strict=True):
                self.accept(name, [slot])

    @precondition(lambda self: self.requests)
    @rule(
        data=st.data(),
        how=st.sampled_from(["all", "shuffled", "one each", "segment", "segments", "pages"]),
    )
    def free(self, data: st.DataObject, how: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.requests)))
        slots = self.requests[name]
        row, pages = ints(slots), ints(sorted(self.pages_of(slots)))
        if how == "shuffled":
            self.allocator.free(row[torch.randperm(len(slots))])
        elif how == "one each":
            self.allocator.free(row.flip(0)[:: self.page_size] if len(slots) % self.page_size == 0 else row)
        elif how == "segment":
            self.allocator.free_segment(row, start_pos=3 * self.page_size)
        elif how == "segments":
            cut = len(slots) // self.page_size // 2 * self.page_size
            self.allocator.free_segments([(row[:cut], 0), (row[cut:], cut)])
        elif how == "pages":
            self.allocator.free_page_ids(pages)
        else:
            self.allocator.free(row)
        # Deferred frees must have taken what was passed, not a view of it.
        row.fill_(0)
        pages.fill_(0)
        self.release(name)

    @precondition(lambda self: self.pending is None and not self.late)
    @rule(pages=st.lists(st.integers(-2, PAGES + 3), min_size=1, max_size=4))
    def free_wrongly(self, pages: list[int]) -> None:
        """Pages that are free, named twice, or of nobody: refused, and the invariants say that nothing changed."""
        if len(set(pages)) == len(pages) and set(pages) <= self.used():
            return
        with pytest.raises(PlatformError, match="freed"):
            self.allocator.free_page_ids(ints(pages))

    @precondition(lambda self: self.pending is None)
    @rule()
    def group_begin(self) -> None:
        self.allocator.free_group_begin()
        self.pending = set()
        self.saved = None

    @precondition(lambda self: self.pending is not None)
    @rule()
    def group_end(self) -> None:
        self.allocator.free_group_end()
        self.pending = None

    @precondition(lambda self: self.pending is None)
    @rule()
    def backup(self) -> None:
        self.saved = (self.allocator.backup_state(), dict(self.requests))

    @precondition(lambda self: self.saved is not None)
    @rule()
    def restore(self) -> None:
        state, requests = self.saved
        self.allocator.restore_state(state)
        self.requests = dict(requests)

    @rule()
    def sort(self) -> None:
        self.allocator.merge_and_sort_free()

    @rule()
    def clear(self) -> None:
        self.allocator.clear()
        self.requests, self.pending = {}, None

    # What always holds

    @invariant()
    def adds_up(self) -> None:
        if not hasattr(self, "allocator"):
            return
        assert self.allocator.available_size() == self.free_now() * self.page_size
        free = self.allocator.get_all_free_pages().tolist()
        assert sorted(free) == sorted(set(range(1, PAGES + 1)) - self.used())
        staged = self.allocator.release_pages.tolist()
        assert sorted(self.allocator.free_pages.tolist() + staged) == sorted(free)
        assert self.allocator.num_staged_pages == len(staged)
        for tensor, values in self.handed_out[-4:]:
            assert tensor.tolist() == values, "slots that were handed out changed afterwards"


@pytest.mark.sample(5)
@pytest.mark.parametrize(("page_size", "paged"), [(1, False), (1, True), (2, True), (16, True), (64, True)])
def test_allocator_agrees_with_the_model(page_size: int, paged: bool) -> None:
    machine = type("Machine", (AllocatorMachine,), {"page_size": page_size, "paged": paged})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=100, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


@pytest.mark.parametrize(("page_size", "paged"), [(1, False), (2, True), (16, True)])
def test_late_marks_refuse_no_right_free(
    page_size: int, paged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the history: marks that look later, as on a device, agree with the model."""

    def marks(capacity: int, like: Any, *, debug: bool) -> LateMarks:
        return LateMarks(capacity, like, torch.zeros(1, dtype=torch.int64))

    monkeypatch.setattr(free_list, "page_marks", marks)

    machine = type("Machine", (AllocatorMachine,), {"page_size": page_size, "paged": paged, "late": True})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
