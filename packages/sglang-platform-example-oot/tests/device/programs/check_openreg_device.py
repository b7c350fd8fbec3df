"""What torch asks of OpenReg, its reference device for PrivateUse1, in `test_device.py`, asked here of ours."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import ModuleType

import pytest
import torch


@pytest.fixture(autouse=True)
def _device_0_again(device_type: str) -> Iterator[None]:
    yield
    torch.accelerator.set_device_index(0)


def test_device_count(device: ModuleType) -> None:
    assert torch.accelerator.device_count() == device.device_count() >= 2


def test_device_switch(device_type: str) -> None:
    for index in (1, 0):
        torch.accelerator.set_device_index(index)
        assert torch.accelerator.current_device_index() == index


def test_device_switch_by_the_module(device_type: str, device: ModuleType) -> None:
    """As SGLang's workers do, by a number or by a name; a number below 0 leaves it as it is."""
    for given, current in ((1, 1), (torch.device(device_type, 0), 0), (f"{device_type}:1", 1), (-1, 1)):
        device.set_device(given)
        assert device.current_device() == current


def test_device_context(device_type: str) -> None:
    with torch.accelerator.device_index(None):
        assert torch.accelerator.current_device_index() == 0
    with torch.accelerator.device_index(1):
        assert torch.accelerator.current_device_index() == 1
    assert torch.accelerator.current_device_index() == 0


def test_invalid_device_index(device_type: str, device: ModuleType) -> None:
    for index in (device.device_count(), 100):
        with pytest.raises(RuntimeError, match="no device"):
            torch.accelerator.set_device_index(index)
        with pytest.raises((RuntimeError, IndexError), match="no device"):
            torch.empty(3, device=torch.device(device_type, index))


def test_tensor_device(device_type: str) -> None:
    assert torch.randn(2, 3, device=device_type).device == torch.device(device_type, 0)
    assert torch.randn(2, 3, device=f"{device_type}:1").device == torch.device(device_type, 1)


def test_device_switch_persistence(device_type: str) -> None:
    torch.accelerator.set_device_index(1)
    for _ in range(2):
        assert torch.randn(2, device=device_type).device.index == 1


def test_device_capability(device_type: str) -> None:
    types = [
        torch.accelerator.get_device_capability(f"{device_type}:{index}")["supported_dtypes"]
        for index in (0, 1)
    ]
    assert types[0] == types[1]
    assert {torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64} <= types[0]


def test_current_device_after_operations(device_type: str) -> None:
    for index in (0, 1):
        torch.accelerator.set_device_index(index)
        a = torch.randn(5, 5, device=device_type)
        assert (a @ a).sum().device.index == index
        assert torch.accelerator.current_device_index() == index


def test_device_context_restoration(device_type: str) -> None:
    def fail() -> None:
        with torch.accelerator.device_index(1):
            with torch.accelerator.device_index(0):
                assert torch.empty(1, device=device_type).device.index == 0
            assert torch.empty(1, device=device_type).device.index == 1
            raise ValueError("inner")

    with pytest.raises(ValueError, match="inner"):
        fail()
    assert torch.accelerator.current_device_index() == 0


def test_concurrent_device_operations(device_type: str) -> None:
    """The current device is a thread's own."""
    wrong: list[object] = []
    start = threading.Barrier(4)

    def work(number: int) -> None:
        start.wait()
        for _ in range(50):
            torch.accelerator.set_device_index(number % 2)
            x = torch.full((10, 10), float(number), device=device_type)
            total = (x @ x).sum()
            if total.device.index != number % 2 or total.item() != 1000 * number * number:
                wrong.append((number, total))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_device_initialization_state(device: ModuleType) -> None:
    device.init()
    assert device.is_initialized()
    assert device.is_available()


def test_device_state_after_errors(device_type: str) -> None:
    with pytest.raises(RuntimeError):
        torch.randn(5, 5, device=device_type) @ torch.randn(3, 3, device=device_type)
    z = torch.ones(5, 5, device=device_type)
    assert (z @ z).sum().item() == 125
