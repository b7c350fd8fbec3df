"""The device's name, for torch and for people. A vendor writes another; `sglang-platform new --device-type` does it."""

from __future__ import annotations

__all__ = ["NAME"]

NAME = "example_oot"
