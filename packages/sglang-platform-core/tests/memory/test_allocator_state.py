"""Allocators: the debug mode and backups."""

from __future__ import annotations

from typing import Any

import pytest
from small_parts import both, either_path, ints, paged, token

from sglang_platform.core.errors import PlatformError


class TestDebugMode:
    @pytest.mark.parametrize("name", ["SGLANG_PLATFORM_DEBUG_MEMORY", "SGLANG_DEBUG_MEMORY_POOL"])
    def test_environment(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        assert not paged().debug_mode
        monkeypatch.setenv(name, "1")
        assert paged().debug_mode

    def test_lengths_that_contradict_each_other(self) -> None:
        allocator = paged(debug_mode=True)
        p, s = ints(0, 0), ints(4, 5)
        with pytest.raises(PlatformError, match="does not match its lengths"):
            allocator.alloc_extend(p, p, s, s, p - 1, 8)
        with pytest.raises(PlatformError, match="request 1 has 4 cached tokens"):
            allocator.alloc_decode(s, s, ints(6, 8))


class TestBackups:
    @both
    @either_path
    def test_state_survives_frees_and_clear_and_is_restored_twice(self, make: Any, numpy: bool) -> None:
        for need_sort in (False, True):
            allocator = make(need_sort=need_sort, use_numpy_on_cpu=numpy)
            ps = allocator.page_size
            allocator.free(allocator.alloc(3 * ps)[ps : 2 * ps])
            before = sorted(allocator.get_all_free_pages().tolist())
            state = allocator.backup_state()
            for _ in range(2):
                held = allocator.alloc(allocator.available_size())
                allocator.free(held.flip(0)[: 2 * ps])
                allocator.clear()
                allocator.restore_state(state)
                assert sorted(allocator.get_all_free_pages().tolist()) == before

    def test_several_states_live_side_by_side(self) -> None:
        for need_sort in (False, True):
            allocator = token(need_sort=need_sort)
            first = allocator.backup_state()
            held = allocator.alloc(6)
            second = allocator.backup_state()
            allocator.free(held[[3, 1]])
            third = allocator.backup_state()
            allocator.restore_state(first)
            allocator.alloc(3)
            allocator.restore_state(third)
            assert sorted(allocator.get_all_free_pages().tolist()) == [2, 4, 7, 8]
            allocator.restore_state(second)
            assert sorted(allocator.get_all_free_pages().tolist()) == [7, 8]
            allocator.restore_state(first)
            assert sorted(allocator.get_all_free_pages().tolist()) == [1, 2, 3, 4, 5, 6, 7, 8]

    def test_a_state_of_another_allocator_is_refused(self) -> None:
        with pytest.raises(PlatformError, match="cannot be restored"):
            paged().restore_state(paged().backup_state())
