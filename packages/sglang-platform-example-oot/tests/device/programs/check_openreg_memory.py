"""What torch asks of OpenReg in `test_memory.py`, `test_storage.py` and `test_utils.py`, asked here of our device."""

from __future__ import annotations

import gc
import io
from collections.abc import Callable
from types import ModuleType

import pytest
import torch


def test_memory_lifecycle(device_type: str, device: ModuleType) -> None:
    torch.accelerator.synchronize()
    gc.collect()
    base = device.memory_allocated()
    x = torch.empty(1000, device=device_type)
    assert device.memory_allocated() > base
    del x
    assert device.memory_allocated() == base


def test_tensor_copy_operations(device_type: str) -> None:
    x = torch.randn(100)
    there = x.to(device_type)
    assert torch.equal(there.cpu(), x)
    assert torch.equal(there.clone().cpu(), x)
    assert there.clone().data_ptr() != there.data_ptr()


def test_tensor_shallow_copy(device_type: str) -> None:
    """Between two tensors of the device. To and from the CPU torch refuses, for any device that is not its own."""
    x, y = torch.randn(4, 4, device=device_type), torch.randn(4, 4, device=device_type)
    x.data = y
    assert x.data_ptr() == y.data_ptr()
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        torch.randn(4, 4).data = y


def test_view_operations(device_type: str) -> None:
    x = torch.arange(100.0, device=device_type)
    assert x.view(10, 10).data_ptr() == x.data_ptr()
    x.view(10, 10)[1].fill_(7)
    assert x[10:20].tolist() == [7] * 10


def test_memory_format_allocation(device_type: str) -> None:
    x = torch.empty(2, 3, 4, 4, device=device_type, memory_format=torch.channels_last)
    assert x.is_contiguous(memory_format=torch.channels_last)
    assert torch.empty(2, 3, 4, device=device_type, memory_format=torch.contiguous_format).is_contiguous()


def _alloc(device: str) -> None:
    torch.empty(1000, device=device)


def _copy(device: str) -> None:
    torch.randn(500, device=device).cpu().to(device).clone()


def _views(device: str) -> None:
    x = torch.randn(1000, device=device)
    assert len({x.view(10, 100).shape, x[100:200].shape, x.reshape(20, 50).shape}) == 3


def _inplace(device: str) -> None:
    torch.ones(1000, device=device).add_(1).mul_(2).div_(2)


def _gradients(device: str) -> None:
    x = torch.randn(100, device=device, requires_grad=True)
    (x * x).sum().backward()


def _large(device: str) -> None:
    torch.empty(13 << 20, device=device)


@pytest.mark.parametrize("use", [_alloc, _copy, _views, _inplace, _gradients, _large])
def test_no_leak(use: Callable[[str], None], device_type: str, device: ModuleType) -> None:
    """The allocator's own count is the proof: nothing stays."""
    use(device_type)
    torch.accelerator.synchronize()
    gc.collect()
    base, reserved = device.memory_allocated(), device.memory_reserved()
    for _ in range(100):
        use(device_type)
    torch.accelerator.synchronize()
    gc.collect()
    assert device.memory_allocated() == base
    assert device.memory_reserved() <= reserved + (8 << 20)


def test_pin_memory(device_type: str) -> None:
    x = torch.randn(10)
    assert not x.is_pinned()
    assert x.pin_memory().is_pinned()
    assert x.pin_memory()[2:5].is_pinned()
    assert x.untyped_storage().pin_memory(device_type).is_pinned(device_type)


def test_rewrapped_storage(device_type: str) -> None:
    pinned = torch.randn(10).pin_memory()
    part = torch.tensor((), dtype=torch.float32).set_(pinned.untyped_storage()[8:], 0, (5,), (1,))
    assert part.is_pinned()


def test_memory_isolation_between_devices(device_type: str) -> None:
    tensors = [torch.full((1000,), float(i), device=f"{device_type}:{i % 2}") for i in range(20)]
    assert len({t.data_ptr() for t in tensors}) == 20
    assert [t.device.index for t in tensors] == [i % 2 for i in range(20)]
    assert all(t.unique().tolist() == [i] for i, t in enumerate(tensors))


def test_bidirectional_device_transfer(device_type: str) -> None:
    x = torch.randn(100, device=f"{device_type}:0")
    y = x.to(f"{device_type}:1")
    assert y.device.index == 1
    assert torch.equal(y.to(f"{device_type}:0").cpu(), x.cpu())


def _saved(x: torch.Tensor, **options: object) -> torch.Tensor:
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    return torch.load(file, **options)  # type: ignore[no-any-return]


def test_serialization(device_type: str) -> None:
    x = torch.randn(3, 3, device=f"{device_type}:1")
    assert _saved(x).device == x.device
    assert torch.equal(_saved(x).cpu(), x.cpu())


def test_serialization_map_location(device_type: str) -> None:
    x = torch.randn(3, 3, device=device_type)
    assert _saved(x, map_location="cpu").is_cpu
    assert _saved(x, map_location=f"{device_type}:1").device.index == 1
    assert torch.equal(_saved(x, map_location="cpu"), x.cpu())


def test_serialization_storage_location_tag(device_type: str) -> None:
    for name, tag in ((device_type, f"{device_type}:0"), (f"{device_type}:1", f"{device_type}:1")):
        storage = torch.UntypedStorage(4, device=torch.device(name))
        assert torch.serialization.location_tag(storage) == tag


def test_open_device_dlpack(device_type: str) -> None:
    x = torch.randn(2, 3).to(device_type)
    y = torch.from_dlpack(torch.utils.dlpack.to_dlpack(x))
    assert y.device == x.device
    assert y.data_ptr() == x.data_ptr()
    assert torch.equal(y.cpu(), x.cpu())
