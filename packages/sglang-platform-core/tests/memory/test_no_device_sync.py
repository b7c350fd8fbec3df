"""No call waits for the device: on torch's `meta` device, where values do not exist, reading one raises."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from sglang_platform.core import (
    DSATokenToKVPool,
    MHATokenToKVPool,
    MLATokenToKVPool,
    PagedTokenToKVPoolAllocator,
    TokenToKVPoolAllocator,
)


def ints(*numbers: int) -> tuple[torch.Tensor, torch.Tensor]:
    cpu = torch.tensor(numbers, dtype=torch.int64)
    return cpu.to("meta"), cpu


@pytest.mark.parametrize("need_sort", [False, True])
def test_paged_allocator(need_sort: bool) -> None:
    allocator = PagedTokenToKVPoolAllocator(64, 4, torch.float16, "meta", None, need_sort)
    prefix, prefix_cpu = ints(0, 3)
    seq, seq_cpu = ints(9, 8)
    slots = allocator.alloc_extend(prefix, prefix_cpu, seq, seq_cpu, prefix - 1, 14)
    assert (slots.device.type, slots.shape, slots.dtype) == ("meta", (14,), torch.int64)
    assert allocator.available_size() == 64 - 16
    seq, seq_cpu = ints(10, 9)
    assert allocator.alloc_decode(seq, seq_cpu, slots[:2]).shape == (2,)
    assert allocator.available_size() == 64 - 20
    allocator.free_segment(slots[:9], start_pos=0)
    assert allocator.available_size() == 64 - 8
    state = allocator.backup_state()
    assert allocator.alloc(48).shape == (48,)
    assert allocator.alloc_decode(seq, ints(1, 1)[1], slots[:2]) is not None
    assert allocator.alloc(4) is None
    allocator.restore_state(state)
    assert allocator.available_size() == 64 - 8


@pytest.mark.parametrize("need_sort", [False, True])
def test_slot_allocator(need_sort: bool) -> None:
    allocator = TokenToKVPoolAllocator(8, torch.float16, "meta", None, need_sort)
    slots = allocator.alloc(8)
    assert (slots.device.type, slots.shape) == ("meta", (8,))
    allocator.free_group_begin()
    allocator.free(slots[2:5])
    allocator.free(slots[:1].int())
    allocator.free_group_end()
    assert allocator.alloc(5) is None
    assert allocator.alloc(4).shape == (4,)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn], ids=str)
def test_pools(dtype: torch.dtype) -> None:
    loc, _ = ints(1, 2, 3)
    layer = SimpleNamespace(layer_id=0)
    mha = MHATokenToKVPool(32, 4, dtype, 2, 8, 1, "meta", False)
    k = torch.empty(3, 2, 8, device="meta")
    mha.set_kv_buffer(layer, loc, k, k, torch.empty(1, device="meta"), 0.5)
    mha.move_kv_cache(loc, loc + 1)

    mla = MLATokenToKVPool(32, 4, dtype, 256, 64, 1, "meta", False)
    row = torch.empty(3, 1, 320, device="meta")
    mla.set_kv_buffer(layer, loc, row, None)
    assert mla.get_mla_kv_buffer(layer, loc)[0].shape == (3, 1, 256)

    packed = dtype == torch.float8_e4m3fn
    dsa = DSATokenToKVPool(32, 4, 256, dtype, 64, 1, "meta", 128, False, 392 if packed else 320)
    dsa.set_kv_buffer(layer, loc, row, None)
    dsa.set_index_k_scale_buffer(
        0, loc, torch.empty(3, 128, device="meta", dtype=torch.float8_e4m3fn), row[:, 0, :1]
    )
    dsa.move_kv_cache(loc, loc + 1)
    keys, scales = dsa.get_index_k_scale_buffer(0, loc, ints(1, 2, 3)[0][:, None], 6, 3)
    assert (keys.shape, scales.shape) == ((6, 128), (6, 4))
