"""A kernel module with one line changed, loaded beside the real one: what a check must catch.

A mutant is an edit of the source text, so it also says which line of a kernel each check guards.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["Mutant", "load", "mutated"]


@dataclass(frozen=True)
class Mutant:
    """`module` with `old` (which stands there `count` times) replaced by `new`: the defect `name`."""

    name: str
    module: str
    old: str
    new: str
    count: int = 1


def load(mutant: Mutant, folder: Path) -> ModuleType:
    """The changed module, under a name of its own; its source is written into `folder`.

    Raises ValueError where the text to change is not there as often as said: the kernel has moved on.
    """
    spec = importlib.util.find_spec(mutant.module)
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text()
    if source.count(mutant.old) != mutant.count:
        raise ValueError(
            f"{mutant.name}: {mutant.old!r} stands {source.count(mutant.old)} times in {spec.origin}"
        )
    name = mutant.module.rpartition(".")[2] + "_" + "".join(c if c.isalnum() else "_" for c in mutant.name)
    path = folder / f"{name}.py"
    path.write_text(source.replace(mutant.old, mutant.new))
    changed = importlib.util.spec_from_file_location(name, path)
    assert changed is not None
    assert changed.loader is not None
    module = importlib.util.module_from_spec(changed)
    sys.modules[name] = module
    changed.loader.exec_module(module)
    return module


def mutated(entry: Callable[..., Any], mutant: Mutant, folder: Path) -> Callable[..., Any]:
    """A launch wrapper with the defect: in the module that it stands in, or, where it is a `partial`, in the function
    below or in the module of a kernel that is handed in under its own name."""
    changed = load(mutant, folder)
    if not isinstance(entry, partial):
        wrapper: Callable[..., Any] = getattr(changed, entry.__name__)
        return wrapper
    function = entry.func
    if function.__module__ == mutant.module:
        function = getattr(changed, function.__name__)
    kernels = {name: getattr(changed, name) for name in entry.keywords if hasattr(changed, name)}
    return partial(function, **{**entry.keywords, **kernels})
