"""Accesses out of bounds and conflicts between programs are caught, good kernels are left alone."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from sglang_platform.conformance.kernels.interpreter.arena import conflicts_allowed, reachable
from sglang_platform.conformance.kernels.interpreter.watch import AccessError


@triton.jit
def _copy(src, dst, n, stride, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(dst + i, tl.load(src + i * stride, mask=i < n), mask=i < n)


@triton.jit
def _store_at(dst, index, value):
    tl.store(dst + tl.load(index + tl.program_id(0)), value + tl.program_id(0))


@triton.jit
def _store_lanes(dst, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(dst + i // 2, i)


@triton.jit
def _shift_in_place(buffer):
    i = tl.program_id(0)
    tl.store(buffer + i, tl.load(buffer + i + 1))


@triton.jit
def _through_table(table, BLOCK: tl.constexpr):
    row = tl.load(table + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    tl.store(row + tl.arange(0, BLOCK), 1.0)


@triton.jit
def _copy_block(rows, dst, first, N: tl.constexpr):
    tl.store(dst + tl.arange(0, N)[:, None] * 4 + tl.arange(0, 4)[None, :], rows.load([first, 4]))


@triton.jit
def _count(counter):
    tl.atomic_add(counter, 1)


def test_a_good_kernel_is_left_alone() -> None:
    src, dst = torch.arange(100.0), torch.zeros(100)
    _copy[(2,)](src, dst, 100, 1, BLOCK=64)
    assert torch.equal(src, dst)


@pytest.mark.parametrize("n", [101, 120])
def test_a_read_just_beyond_a_tensor(n: int) -> None:
    # The memory goes on, only the tensor ends: hardware would not fault either.
    whole = torch.arange(200.0)
    with pytest.raises(AccessError, match=r"load in program .* are out of bounds.* src \(100,\)"):
        _copy[(2,)](whole[:100], torch.zeros(128), n, 1, BLOCK=64)


def test_a_write_beyond_a_tensor() -> None:
    with pytest.raises(AccessError, match=r"store .* out of bounds.*beyond the memory of dst"):
        _copy[(1,)](torch.arange(64.0), torch.zeros(63), 64, 1, BLOCK=64)


def test_a_read_between_the_elements_of_a_view() -> None:
    columns = torch.zeros(64, 4)[:, 0]
    with pytest.raises(AccessError, match="between the elements of the view"):
        _copy[(1,)](columns, torch.zeros(64), 64, 2, BLOCK=64)
    _copy[(1,)](columns, torch.zeros(64), 64, 4, BLOCK=64)


def test_a_read_before_a_tensor() -> None:
    with pytest.raises(AccessError, match="before the memory of dst"):
        _store_at[(1,)](torch.zeros(4), torch.tensor([-1]), 1.0)


def test_two_programs_that_store_to_one_address() -> None:
    dst = torch.zeros(8)
    with pytest.raises(AccessError, match="programs 0 and 2 store to one address"):
        _store_at[(3,)](dst, torch.tensor([5, 1, 5]), 1.0)
    _store_at[(3,)](dst, torch.tensor([5, 1, 4]), 1.0)
    with conflicts_allowed(dst[5:6]):
        _store_at[(3,)](dst, torch.tensor([5, 1, 5]), 1.0)


def test_one_store_with_two_values_for_one_address() -> None:
    with pytest.raises(AccessError, match="stores two values to one address"):
        _store_lanes[(1,)](torch.zeros(8, dtype=torch.int32), N=8)


def test_a_program_that_reads_what_another_stores() -> None:
    with pytest.raises(AccessError, match="reads what program"):
        _shift_in_place[(4,)](torch.arange(5.0))


def test_tensors_behind_a_table_of_addresses() -> None:
    layers = [torch.zeros(16), torch.zeros(16)]
    table = torch.tensor([layer.data_ptr() for layer in layers])
    with pytest.raises(AccessError, match="out of bounds"):
        _through_table[(2,)](table, BLOCK=16)
    with reachable(*layers):
        _through_table[(2,)](table, BLOCK=16)
        assert all(layer.eq(1).all() for layer in layers)
        with pytest.raises(AccessError, match="a table of addresses"):
            _through_table[(2,)](table, BLOCK=32)


def test_a_descriptor_made_on_the_host() -> None:
    src, dst = torch.arange(64.0).view(8, 8), torch.zeros(4, 4)
    _copy_block[(1,)](TensorDescriptor(src, [8, 8], [8, 1], [4, 4]), dst, 2, N=4)
    assert torch.equal(dst, src[2:6, 4:])
    with pytest.raises(AccessError, match=r"out of bounds.*in the memory of rows \(6, 8\)"):
        _copy_block[(1,)](TensorDescriptor(src[:6], [8, 8], [8, 1], [4, 4]), dst, 4, N=4)


def test_atomic_operations_may_meet() -> None:
    counter = torch.zeros(1, dtype=torch.int32)
    _count[(5,)](counter)
    assert counter.item() == 5
