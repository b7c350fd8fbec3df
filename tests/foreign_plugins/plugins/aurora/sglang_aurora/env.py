"""Flags of the environment."""

import os


def read_flag(name: str) -> bool:
    return os.environ.get(name, "0") not in ("", "0")
