"""The functions that core adds to a device module answer for the device that they are asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from sglang_platform.core.sglang.diffusion.device_module import complete  # noqa: E402  # after the skip


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Of a platform whose device i has i GiB, completed in the worker of device 2."""
    platform = SimpleNamespace(
        device_name="many",
        device_type="cpu",
        get_local_torch_device=lambda: torch.device("cpu", 2),
        get_available_memory=lambda index: (index << 29, index << 30),
        get_current_memory_usage=lambda device: float(device.index << 28),
        get_device_name=lambda index: f"card {index}",
        get_device_total_memory=lambda index: index << 30,
    )
    empty = SimpleNamespace()
    monkeypatch.setattr(torch, "get_device_module", lambda: empty)
    assert "mem_get_info" in complete(platform)
    return empty


@pytest.mark.parametrize(
    ("device", "index"),
    [((), 2), ((None,), 2), ((1,), 1), (("cpu:3",), 3), ((torch.device("cpu", 1),), 1), (("cpu",), 0)],
)
def test_each_device_answers_for_itself(module: Any, device: tuple[Any, ...], index: int) -> None:
    assert module.mem_get_info(*device) == (index << 29, index << 30)
    assert module.memory_allocated(*device) == module.max_memory_reserved(*device) == index << 28
    properties = module.get_device_properties(*device)
    assert (properties.name, properties.total_memory) == (f"card {index}", index << 30)


def test_the_device_is_named_too(module: Any) -> None:
    assert module.mem_get_info(device=3) == (3 << 29, 3 << 30)
