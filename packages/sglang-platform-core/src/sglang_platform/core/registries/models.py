"""Model architectures that a plugin provides, imported only when they are used.

A class is registered by its location. A module that is disabled in `SGLANG_DISABLED_MODEL_ARCHS` is never imported. If
the import of a module fails, the error is raised, with its cause, only when its architecture is requested; other models
are not affected.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

from sglang_platform.core.registries.registry import Registry, RegistryError

__all__ = [
    "DISABLED_VARIABLE",
    "architectures",
    "disabled_modules",
    "is_disabled",
    "load_model",
    "register_model",
]

DISABLED_VARIABLE = "SGLANG_DISABLED_MODEL_ARCHS"
"""Module names (their last part), separated by commas; SGLang reads it for its own models."""


architectures: Registry[str] = Registry("model_architectures", "model architecture")


def register_model(architecture: str, place: str) -> None:
    """Serve checkpoints of `architecture` (the name in their config) by the class at `place`, `pkg.mod:Class`.

    Imports nothing. Raises RegistryError for a malformed place, and where another class serves the architecture.
    """
    module, colon, name = place.partition(":")
    if not (colon and module and name.isidentifier()):
        raise RegistryError(
            f"{place!r} is no place of a model class",
            why="it must read pkg.mod:Class, so that nothing is imported",
            fix="put a colon between the module and the class",
        )
    architectures.add(architecture, place)


def disabled_modules() -> frozenset[str]:
    """The module names that are switched off."""
    return frozenset(
        name.strip() for name in os.environ.get(DISABLED_VARIABLE, "").split(",") if name.strip()
    )


def is_disabled(architecture: str) -> bool:
    """Whether the module of a registered architecture is switched off."""
    entry = architectures.get(architecture)
    return entry is not None and entry.part.partition(":")[0].rpartition(".")[2] in disabled_modules()


def load_model(architecture: str) -> Any:
    """The class that serves `architecture`, or None where none is registered.

    Raises RegistryError, from its cause, where the module is switched off, cannot be imported, or lacks the class.
    """
    entry = architectures.get(architecture)
    if entry is None:
        return None
    module, _, name = entry.part.partition(":")
    if is_disabled(architecture):
        raise RegistryError(
            f"model architecture {architecture!r} is switched off",
            plugin=entry.origin,
            why=f"{DISABLED_VARIABLE} names {module.rpartition('.')[2]}",
            fix=f"take it out of {DISABLED_VARIABLE}",
        )
    return architectures.call(
        entry, f"class {entry.part}", lambda: getattr(importlib.import_module(module), name)
    )
