"""The device's type in torch, and the call that registers it there, once per process.

A vendor changes: `_open`, which imports the torch plugin that registers the device, and `NAME`, which is its type.
"""

from __future__ import annotations

import threading

__all__ = ["NAME", "open_device"]

NAME = "example_oot"

_lock = threading.Lock()
_opened: str | None = None


def open_device() -> str:
    """Register the device with torch, once per process; returns the platform's device type."""
    global _opened
    with _lock:
        if _opened is None:
            _opened = _open()
        return _opened


def _open() -> str:
    from sglang_platform.example_oot import torch_device  # leads to torch

    return torch_device.register()
