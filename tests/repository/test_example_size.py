"""The example stays small enough to be copied: every file says what a vendor changes, and what is edited is counted. A
copy has no such test, since it grows."""

from __future__ import annotations

from pathlib import Path

import sglang_platform.example_oot as package

ROOT = Path(package.__file__).parent

EDITED = (
    "__init__.py",
    "device_type.py",
    "device.py",
    "platform.py",
    "kv_pools.py",
    "allocator.py",
    "attention.py",
    "ops.py",
    "quantization.py",
    "graph_runner.py",
    "torch_device/__init__.py",
    "torch_device/process_group.py",
)
MOST_LINES = 1000


def test_a_vendor_edits_at_most_a_thousand_lines() -> None:
    lines = {name: len((ROOT / name).read_text().splitlines()) for name in EDITED}
    assert sum(lines.values()) <= MOST_LINES, lines


def test_every_file_says_first_what_a_vendor_does_with_it() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*")
        if path.suffix in (".py", ".cpp", ".h")
        and "vendor" not in "".join(path.read_text().splitlines()[:8]).lower()
    ]
    assert silent == []
