"""The device's type in torch. A vendor writes the one that its driver or its torch plugin registers."""

from __future__ import annotations

__all__ = ["NAME"]

NAME = "example_oot"
