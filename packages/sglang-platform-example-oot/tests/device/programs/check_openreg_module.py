"""What torch asks of OpenReg in `test_misc.py`, `test_rng.py`, `test_autocast.py` and `test_autograd.py`."""

from __future__ import annotations

import types
from types import ModuleType

import pytest
import torch


def test_backend_module_name(device_type: str) -> None:
    assert torch._C._get_privateuse1_backend_name() == device_type
    torch.utils.rename_privateuse1_backend(device_type)
    with pytest.raises(RuntimeError, match="has already been set"):
        torch.utils.rename_privateuse1_backend("another")


def test_backend_module_registration(device_type: str) -> None:
    for name in (device_type, "another"):
        with pytest.raises(RuntimeError):
            torch._register_device_module(name, types.ModuleType("false"))


def test_backend_module_function(device: ModuleType) -> None:
    function = torch.utils.backend_registration._get_custom_mod_func
    assert function("device_count")() == device.device_count()
    with pytest.raises(RuntimeError, match="no_such"):
        function("no_such")


def test_backend_generate_methods(device_type: str) -> None:
    for holder in (torch.Tensor, torch.UntypedStorage, torch.TypedStorage, torch.nn.utils.rnn.PackedSequence):
        assert hasattr(holder, f"is_{device_type}"), holder
        assert hasattr(holder, device_type), holder
    assert hasattr(torch.nn.Module, device_type)


def test_backend_tensor_methods(device_type: str) -> None:
    x = torch.empty(4, 4)
    assert not getattr(x, f"is_{device_type}")
    for where, index in ((torch.device(device_type), 0), (0, 0), (1, 1)):
        y = getattr(x, device_type)(where)
        assert getattr(y, f"is_{device_type}")
        assert y.device.index == index


def test_backend_module_methods(device_type: str) -> None:
    module = getattr(torch.nn.Linear(3, 3), device_type)()
    assert module.weight.device.type == device_type
    assert module(torch.ones(2, 3, device=device_type)).device.type == device_type


def test_backend_storage_methods(device_type: str) -> None:
    x = torch.arange(4.0)
    there = getattr(x.untyped_storage(), device_type)()
    assert getattr(there, f"is_{device_type}")
    assert torch.empty(0, device=device_type).set_(there, 0, (4,)).tolist() == [0, 1, 2, 3]


def test_backend_tensor_type(device_type: str) -> None:
    for dtype, name in (
        (torch.bool, "Bool"),
        (torch.half, "Half"),
        (torch.int64, "Long"),
        (torch.uint8, "Byte"),
    ):
        assert torch.empty(2, dtype=dtype, device=device_type).type() == f"torch.{device_type}.{name}Tensor"


def test_generator(device_type: str) -> None:
    generator = torch.Generator(device=f"{device_type}:1")
    assert generator.device == torch.device(device_type, 1)
    generator.manual_seed(42)
    assert generator.initial_seed() == 42
    assert torch.rand(2, device=generator.device, generator=generator).device.index == 1


def test_rng_state(device_type: str, device: ModuleType) -> None:
    states = device.get_rng_state_all()
    assert len(states) == device.device_count()
    first = [torch.rand(4, device=f"{device_type}:{index}").cpu() for index in (0, 1)]
    device.set_rng_state_all(states)
    again = [torch.rand(4, device=f"{device_type}:{index}").cpu() for index in (0, 1)]
    assert all(map(torch.equal, first, again))


def test_seed(device: ModuleType) -> None:
    device.manual_seed_all(42)
    assert device.initial_seed() == 42
    seeds = set()
    for _ in range(2):
        device.seed_all()
        seeds.add(device.initial_seed())
    assert len(seeds) == 2


def test_autograd_init(device_type: str) -> None:
    x = torch.ones(2, requires_grad=True, device=device_type)
    (3 * x).sum().backward()
    assert x.grad is not None
    assert x.grad.device == x.device
    assert x.grad.tolist() == [3, 3]
