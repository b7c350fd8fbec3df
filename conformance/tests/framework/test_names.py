"""One word for one thing: no two public classes of a name within the suite, and none that core has already."""

from __future__ import annotations

import ast
from collections import defaultdict
from importlib.resources import files
from pathlib import Path

import sglang_platform.conformance
import sglang_platform.core

# The kernels have a suite of their own, run by itself, with its own words for a case and its outcome.
APART = "kernels"


def public_classes(package: str) -> dict[str, list[str]]:
    """Name -> the modules at whose top it is defined."""
    found: dict[str, list[str]] = defaultdict(list)
    root = Path(str(files(package)))
    for path in sorted(root.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(root)))
    return found


def test_no_two_public_classes_have_one_name() -> None:
    core = public_classes(sglang_platform.core.__name__)
    shared = {}
    for name, places in public_classes(sglang_platform.conformance.__name__).items():
        here = [place for place in places if not place.startswith(APART)]
        if here and (len(here) > 1 or name in core):
            shared[name] = here + core.get(name, [])
    assert shared == {}
