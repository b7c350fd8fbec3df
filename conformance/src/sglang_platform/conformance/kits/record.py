"""Runs every kit on SGLang's own CPU device and writes the record of the installed release.

python -m sglang_platform.conformance.kits.record
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence

from sglang_platform.conformance.kits import attention, baseline, server
from sglang_platform.conformance.kits.verdict import KitTest

__all__: list[str] = []


def _main() -> None:
    parts: dict[str, Sequence[KitTest]] = {"attention": attention.in_tree(), "server": server.in_tree()}
    path = baseline.record_of(importlib.metadata.version("sglang"))
    baseline.written(parts, path)
    for part, tests in parts.items():
        print(f"{part}: {sum(one.outcome == 'passed' for one in tests)} of {len(tests)} pass")
    print(path)


if __name__ == "__main__":
    _main()
