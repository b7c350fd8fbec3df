"""The device's name, for torch and for people."""

from __future__ import annotations

__all__ = ["NAME"]

NAME = "example_oot"
