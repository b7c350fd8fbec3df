"""One seed for a run, and from it one for each check, so that a check run alone sees what it saw in the run."""

from __future__ import annotations

import hashlib

__all__ = ["seed_of"]


def seed_of(run_seed: int, check_id: str) -> int:
    """31 bits, the same on every machine and in every Python."""
    digest = hashlib.sha256(f"{run_seed}:{check_id}".encode()).digest()
    return int.from_bytes(digest[:4], "little") >> 1
