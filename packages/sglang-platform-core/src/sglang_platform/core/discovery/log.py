"""The loggers of discovery. `logging` is only imported once there is something to say."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging

__all__ = ["log"]


def log(name: str) -> logging.Logger:
    import logging

    return logging.getLogger(name)
