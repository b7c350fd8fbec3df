"""Memory that is counted, reused and limited; pinned memory; generators."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch


def test_memory_is_counted_reused_and_limited(device_type: str, device: ModuleType) -> None:
    base = device.memory_allocated()
    x = torch.zeros(3 << 20, dtype=torch.uint8, device=device_type)
    address = x.data_ptr()
    assert device.memory_allocated() - base == 4 << 20  # whole 2 MiB pages
    del x
    assert device.memory_allocated() == base
    assert torch.zeros(3 << 20, dtype=torch.uint8, device=device_type).data_ptr() == address
    assert device.max_memory_allocated() >= base + (4 << 20)
    reserved = device.memory_reserved()
    device.empty_cache()
    assert device.memory_reserved() < reserved
    free, total = device.mem_get_info()
    with pytest.raises(torch.OutOfMemoryError, match="SGLANG_EXAMPLE_OOT_MEMORY"):
        torch.empty(total + 1, dtype=torch.uint8, device=device_type)
    assert device.mem_get_info() == (free, total)


@pytest.mark.parametrize("size", [-1, -(1 << 21), (1 << 63) - 1, 1 << 62])
def test_a_size_that_no_memory_has_is_refused(size: int, device_type: str) -> None:
    """Rounded up to whole pages it would be a small one."""
    x = torch.ones(4, device=device_type)
    with pytest.raises((RuntimeError, torch.OutOfMemoryError)):
        x.untyped_storage().resize_(size)
    assert x.tolist() == [1] * 4


def test_memory_of_a_device_that_is_not_there(device: ModuleType) -> None:
    for ask in (device.memory_allocated, device.mem_get_info, device.memory_stats):
        with pytest.raises(IndexError, match="there is no device 9"):
            ask(9)
    with pytest.raises(ValueError, match="cuda:0 is no device of"):
        device.get_device_name("cuda:0")


def test_pinned_memory_and_generators(device_type: str, device: ModuleType) -> None:
    x = torch.arange(5.0).to(device_type)
    copy = x.to("cpu", non_blocking=True)
    assert copy.is_pinned()
    torch.accelerator.synchronize()
    assert copy.tolist() == [0, 1, 2, 3, 4]
    source = torch.ones(4)
    y = source.to(device_type, non_blocking=True)
    source.zero_()  # ordinary memory may change as soon as the copy was asked for
    assert y.sum().item() == 4
    device.manual_seed_all(5)
    first = torch.rand(4, device=device_type).cpu()
    state = device.get_rng_state()
    torch.rand(2, device=device_type)
    device.set_rng_state(state)
    after = torch.rand(2, device=device_type).cpu()
    torch.manual_seed(5)
    assert torch.equal(first, torch.rand(4, device=device_type).cpu())
    assert torch.equal(after, torch.rand(2, device=device_type).cpu())
