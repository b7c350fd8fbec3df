"""Hides modules of this environment: the top-level names in the file that `GPU_REHEARSAL_HIDDEN` names.

Found by Python at its start, as first folder of `PYTHONPATH`.
"""

import os
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

if hidden_in := os.environ.get("GPU_REHEARSAL_HIDDEN"):
    hidden = frozenset(Path(hidden_in).read_text(encoding="utf-8").split())
    found = PathFinder.find_spec

    def without(name: str, path: Any = None, target: Any = None) -> Any:
        """As on a machine that does not have them."""
        return None if name in hidden else found(name, path, target)

    PathFinder.find_spec = staticmethod(without)  # type: ignore[method-assign, assignment]
