"""The probe of the platform in `device_made_ready.py`."""

from __future__ import annotations

from sglang_platform.core import platform_plugin


@platform_plugin
def activate() -> str:
    return "device_made_ready:DeviceMadeReady"
