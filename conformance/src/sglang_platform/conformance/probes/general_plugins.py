"""Call a distribution's general plugins in a process that has torch, and tell what each left behind.

Given: `plugins`, the entry points as [name, value]; `preload`: modules of others that they import, whose own traces are
not theirs. Told of each by name: `changes` by group (`traces.py`), the modules `imported`, `raised` where it did, and
the addresses at which it `listens`.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
from typing import Any

from sglang_platform.conformance.probes import tell
from sglang_platform.conformance.probes.left_behind import observed
from sglang_platform.conformance.probes.process_readings import listening

__all__: list[str] = []


def look(given: dict[str, Any]) -> dict[str, Any]:
    for name in ("torch", "numpy", "sglang_platform.core", *given["preload"]):
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    return {name: _called(value) for name, value in given["plugins"]}


def _called(value: str) -> dict[str, Any]:
    before = listening()
    told = observed(lambda: pkgutil.resolve_name(value.partition("[")[0].replace(" ", ""))())
    return {**told, "listens": [one for one in listening() if one not in before]}


if __name__ == "__main__":
    tell(look)
