"""Core's source names no GPU architecture: those stand in the packages of their vendors."""

from __future__ import annotations

import re
from pathlib import Path

import sglang_platform.core

_NAMES = re.compile(r"\bsm_\d+|\bgfx\d+\w*")


def test_core_names_no_architecture() -> None:
    root = Path(sglang_platform.core.__file__).parent
    found = [
        f"{path.relative_to(root)}:{number}: {line.strip()}"
        for path in sorted(root.rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if _NAMES.search(line)
        and "gfx1151" not in line  # a question of the host's diffusion platform, `is_gfx1151`
    ]
    assert not found, "\n".join(found)
