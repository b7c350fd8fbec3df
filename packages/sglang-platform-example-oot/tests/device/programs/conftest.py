"""Opens the device. It stays open, so these files run in a process of their own: `run_checks.py`."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

from sglang_platform.example_oot.device import open_device
from sglang_platform.example_oot.device_type import NAME


@pytest.fixture(scope="session")
def device_type() -> str:
    """The device's type."""
    opened = open_device()
    assert opened == NAME
    return opened


@pytest.fixture(scope="session")
def device(device_type: str) -> ModuleType:
    """Its module, `torch.<device_type>`."""
    return torch.get_device_module(device_type)  # type: ignore[no-any-return]
