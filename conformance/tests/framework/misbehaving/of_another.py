"""General plugins of distributions that have nothing to do with the platform under test."""

from __future__ import annotations

import os


def raises() -> None:
    raise RuntimeError("this tracer needs its daemon")


def exits() -> None:
    os._exit(5)
