"""Reads where a package's decode attention was measured to be faster than the host's.

A table is of one card: `decode_*.json` in the package's tuning folder, written by `benchmarks/gpu_decode_table.py` from
rows that were timed there. Without a table of the card nothing is known, and the host's backend serves.
"""

from __future__ import annotations

import json
from pathlib import Path

from sglang_platform.core.host import DecodeAsked

__all__ = ["PAGE", "is_faster"]

PAGE = 64
"""Tokens of a page from which on decode reads whole pages where the device has a copy unit for them."""


def is_faster(tables: Path, card: str, asked: DecodeAsked) -> bool:
    """Whether the table of `card`, the name that the driver gives it, says so for this decode."""
    for file in sorted(tables.glob("decode_*.json")):
        table = json.loads(file.read_text(encoding="utf-8"))
        if table["card"] == card:
            return any(
                asked.beside in shape["faster_than"]
                and (shape["latent"], shape["eight_bit"], shape["group"], shape["dim"], shape["pages"])
                == (asked.latent, asked.eight_bit, asked.group, asked.dim, asked.page_size >= PAGE)
                for shape in table["decode"]
            )
    return False
