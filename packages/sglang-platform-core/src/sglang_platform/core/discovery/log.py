"""The loggers of discovery. `logging` is imported only when there is a message to log."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging

__all__ = ["log"]


def log(name: str) -> logging.Logger:
    import logging

    return logging.getLogger(name)
