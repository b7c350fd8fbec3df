"""One name, one class: no two public classes of our packages have the same name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from findings import refuse
from import_graph import modules_below, our_graph

SAME_ON_PURPOSE: dict[str, str] = {}
"""Names that two classes share, each with the reason."""


def test_no_two_public_classes_of_one_name() -> None:
    shared = _shared(our_graph().modules)
    refuse([told for name, told in shared.items() if name not in SAME_ON_PURPOSE], "one name, one class")
    assert not SAME_ON_PURPOSE.keys() - shared.keys(), "an exception that is needed no more"


def _shared(modules: Mapping[str, Path]) -> dict[str, str]:
    """Each name of more than one public class, with the modules. A module or class with an underscore is private."""
    places = defaultdict(list)
    for module, path in modules.items():
        if not any(part.startswith("_") and part != "__main__" for part in module.split(".")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(module)
    return {name: f"{name}: {', '.join(found)}" for name, found in sorted(places.items()) if len(found) > 1}


def test_two_classes_of_one_name_are_seen(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("class Check: ...\nclass _Own: ...\nclass One:\n    class Inner: ...\n")
    (tmp_path / "two.py").write_text("class Check: ...\nclass _Own: ...\nclass Two:\n    class Inner: ...\n")
    assert _shared(modules_below(tmp_path)) == {"Check": "Check: one, two"}
