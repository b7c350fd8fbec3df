"""Allocators: what the state machine does not reach."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from small_parts import either_path, ints, paged, token

from sglang_platform.core import PagedTokenToKVPoolAllocator
from sglang_platform.core.errors import PlatformError
from sglang_platform.core.memory.page_arithmetic import decode_slots_on_device, extend_slots_on_device


def extend(allocator: Any, prefix: list[int], seq: list[int], last: list[int]) -> torch.Tensor | None:
    p, s = ints(*prefix), ints(*seq)
    return allocator.alloc_extend(p, p, s, s, ints(*last), int((s - p).sum()))


class TestWhatIsHandedOut:
    def test_a_fresh_pool_lends_slots_in_ascending_order_and_never_the_padding(self) -> None:
        assert token().alloc(8).tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
        assert paged().alloc(32).tolist() == list(range(4, 36))

    def test_only_whole_pages_of_the_size_are_lent(self) -> None:
        assert paged(size=35).available_size() == 32

    @either_path
    def test_the_tail_of_the_last_page_is_filled_first(self, numpy: bool) -> None:
        allocator = paged(use_numpy_on_cpu=numpy)
        first = extend(allocator, [0, 0], [6, 3], [-1, -1])
        assert first.tolist() == [4, 5, 6, 7, 8, 9, 12, 13, 14]
        more = extend(allocator, [6, 3], [13, 4], [9, 14])
        assert more.tolist() == [10, 11, 16, 17, 18, 19, 20, 15]

    @either_path
    def test_a_batch_in_which_nothing_grows(self, numpy: bool) -> None:
        allocator = paged(use_numpy_on_cpu=numpy)
        held = extend(allocator, [0, 0], [6, 4], [-1, -1])
        assert extend(allocator, [6, 4], [6, 4], [held[5], held[9]]).tolist() == []
        assert allocator.available_size() == 20

    @either_path
    def test_decode_opens_a_page_only_when_the_last_is_full(self, numpy: bool) -> None:
        allocator = paged(use_numpy_on_cpu=numpy)
        held = extend(allocator, [0, 0, 0], [4, 3, 8], [-1, -1, -1])
        seq = ints(5, 4, 9)
        assert allocator.alloc_decode(seq, seq, held[[3, 6, 14]]).tolist() == [20, 11, 24]

    @pytest.mark.parametrize("make", [token, paged])
    def test_allocating_nothing_gives_an_empty_tensor(self, make: Any) -> None:
        empty = make().alloc(0)
        assert empty.shape == (0,)
        assert empty.dtype == torch.int64

    def test_the_count_of_new_pages_may_be_given(self) -> None:
        allocator = paged()
        p, s = ints(0, 0), ints(4, 5)
        assert len(allocator.alloc_extend(p, p, s, s, p - 1, 9, num_new_pages=3)) == 9
        assert allocator.available_size() == 32 - 12


class TestWhenItDoesNotFit:
    @either_path
    def test_a_refused_batch_takes_nothing(self, numpy: bool) -> None:
        allocator = paged(use_numpy_on_cpu=numpy)
        held = extend(allocator, [0], [27], [-1])
        before = allocator.free_pages.tolist()
        assert extend(allocator, [27, 0], [29, 1], [held[-1], -1]) is None
        seq = ints(28, 1, 1)
        assert allocator.alloc_decode(seq, seq, ints(int(held[-1]), -1, -1)) is None
        assert allocator.alloc(8) is None
        assert allocator.free_pages.tolist() == before

    def test_a_refusal_does_not_sort(self) -> None:
        allocator = paged(need_sort=True)
        held = allocator.alloc(32)
        allocator.free(held[:8])
        assert allocator.alloc(12) is None
        assert allocator.num_staged_pages == 2


class TestFreeing:
    def test_any_slot_of_a_page_frees_the_page_once(self) -> None:
        allocator = paged()
        held = allocator.alloc(32)
        allocator.free(held[[13, 2, 12, 1, 15, 14, 13]])
        assert allocator.available_size() == 8
        assert sorted(allocator.free_pages.tolist()) == [1, 4]

    def test_with_need_sort_freed_pages_come_back_in_ascending_order(self) -> None:
        for make in (token, paged):
            for numpy in (True, False):
                allocator = make(need_sort=True, use_numpy_on_cpu=numpy)
                held = allocator.alloc(allocator.available_size())
                ps = allocator.page_size
                for page in (5, 2, 7, 3):
                    allocator.free(held[(page - 1) * ps : page * ps])
                assert allocator.free_pages.tolist() == []
                assert [pages.tolist() for pages in allocator.staged_pages] == [[5, 2, 7, 3]]
                assert (allocator.alloc(3 * ps)[::ps] // ps).tolist() == [2, 3, 5]
                assert allocator.staged_pages == []

    def test_int32_slots_can_be_freed(self) -> None:
        for allocator in (token(), paged(), paged(use_numpy_on_cpu=False), token(use_numpy_on_cpu=False)):
            held = allocator.alloc(8)
            allocator.free(held.int())
            assert allocator.available_size() == allocator.size

    def test_a_segment_starts_on_a_page(self) -> None:
        allocator = paged()
        held = allocator.alloc(8)
        with pytest.raises(PlatformError, match="position 2"):
            allocator.free_segment(held[2:], start_pos=2)
        allocator.free_segment(held[4:6], start_pos=4)
        assert allocator.available_size() == 28

    def test_segments_that_share_a_page_are_refused(self) -> None:
        allocator = paged()
        held = allocator.alloc(16)
        with pytest.raises(PlatformError, match="shares a page"):
            allocator.free_segments([(held[:6], 0), (held[4:], 4)])

    def test_groups_do_not_nest_and_an_end_without_begin_is_harmless(self) -> None:
        allocator = paged()
        allocator.free_group_end()
        allocator.free_group_begin()
        with pytest.raises(PlatformError, match="inside a free group"):
            allocator.free_group_begin()

    def test_slots_freed_twice_in_a_group_count_once(self) -> None:
        allocator = paged()
        held = allocator.alloc(16)
        allocator.free_group_begin()
        allocator.free(held[:6])
        allocator.free(held[5:9])
        assert allocator.available_size() == 16
        allocator.free_group_end()
        assert allocator.available_size() == 28


class TestHost:
    """What SGLang reads and calls besides allocating."""

    def test_sizes(self) -> None:
        allocator = paged(size=35)
        assert (allocator.size, allocator.page_size, allocator.num_pages) == (35, 4, 8)

    def test_resize(self) -> None:
        for allocator in (token(), paged()):
            state = allocator.backup_state()
            allocator.resize(SimpleNamespace(max_total_num_tokens=64))
            assert allocator.size == allocator.available_size() == 64
            assert len(allocator.alloc(64)) == 64
            with pytest.raises(PlatformError, match="cannot be restored"):
                allocator.restore_state(state)

    def test_hybrid_allocators_resize_by_attribute(self) -> None:
        allocator = paged()
        allocator.size, allocator.num_pages = 16, 4
        allocator.clear()
        assert allocator.available_size() == 16

    def test_free_pages_can_be_assigned_in_the_host_s_style(self) -> None:
        for numpy in (True, False):
            allocator = paged(use_numpy_on_cpu=numpy)
            allocator.free_pages = allocator.free_pages[3:]
            assert allocator.free_pages.tolist() == [4, 5, 6, 7, 8]
            allocator.free_pages = torch.cat((ints(2, 1), allocator.free_pages))
            assert allocator.alloc(12).tolist()[::4] == [8, 4, 16]

    def test_copies_go_to_the_kv_pool(self) -> None:
        calls: list[Any] = []
        pool = SimpleNamespace(
            get_cpu_copy=lambda indices, **names: calls.append(("get", indices, names)) or "saved",
            load_cpu_copy=lambda saved, indices, **names: calls.append((saved, indices, names)),
        )
        allocator = PagedTokenToKVPoolAllocator(32, 4, torch.float16, "cpu", pool, False)
        assert allocator.get_cpu_copy("slots", req_pool_index=3) == "saved"
        allocator.load_cpu_copy("saved", "slots", mamba_indices=1)
        assert calls == [
            ("get", "slots", {"mamba_indices": None, "req_pool_index": 3}),
            ("saved", "slots", {"mamba_indices": 1, "req_pool_index": None}),
        ]

    def test_single_slots_have_no_pages_to_extend(self) -> None:
        with pytest.raises(NotImplementedError, match="alloc"):
            token().alloc_extend()


class TestKernels:
    def test_an_overridden_kernel_is_used_and_gets_exactly_the_new_pages(self) -> None:
        seen: list[list[int]] = []

        class Mine(PagedTokenToKVPoolAllocator):
            def _extend_kernel(self, prefix_lens, seq_lens, last_loc, free_pages, out_indices):  # type: ignore[no-untyped-def]
                seen.append(free_pages.tolist())
                extend_slots_on_device(
                    prefix_lens, seq_lens, last_loc, free_pages, out_indices, self.page_size
                )

            def _decode_kernel(self, seq_lens, last_loc, free_pages, out_indices):  # type: ignore[no-untyped-def]
                seen.append(free_pages.tolist())
                decode_slots_on_device(seq_lens, last_loc, free_pages, out_indices, self.page_size)

        allocator = Mine(32, 4, torch.float16, "cpu", None, False)
        held = extend(allocator, [0], [5], [-1])
        assert held.tolist() == [4, 5, 6, 7, 8]
        seq = ints(6, 9)
        assert allocator.alloc_decode(seq, seq, ints(8, 100)).tolist() == [9, 12]
        assert seen == [[1, 2], [3]]

    def test_a_kernel_that_fails_leaves_the_allocator_as_it_was(self) -> None:
        class Broken(PagedTokenToKVPoolAllocator):
            def _extend_kernel(self, *_: torch.Tensor) -> None:
                raise RuntimeError("launch failed")

        allocator = Broken(32, 4, torch.float16, "cpu", None, False)
        with pytest.raises(RuntimeError, match="launch failed"):
            extend(allocator, [0], [5], [-1])
        assert allocator.available_size() == 32


class TestArguments:
    @pytest.mark.parametrize("size", [0, -4, 2.5])
    def test_sizes(self, size: Any) -> None:
        for make in (token, paged):
            with pytest.raises(PlatformError, match=r"size is"):
                make(size=size)

    def test_pages(self) -> None:
        with pytest.raises(PlatformError, match="page_size is 0"):
            paged(page_size=0)
        with pytest.raises(PlatformError, match="under one page"):
            paged(size=3)

    def test_alloc(self) -> None:
        with pytest.raises(PlatformError, match="need_size is -1"):
            token().alloc(-1)
        for need in (-4, 6):
            with pytest.raises(PlatformError, match="whole pages"):
                paged().alloc(need)
