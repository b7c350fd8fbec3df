"""The importable modules of this environment, read from their files without importing them."""

from __future__ import annotations

import abc
import sys
from pathlib import Path
from typing import Any

from sglang_platform.core.installed.modules import find_module, submodules
from sglang_platform.devtools.source.module import Module

__all__ = ["Environment"]


class Environment:
    """Modules of this environment by name. Parsed modules are cached in the object."""

    called = "this environment"

    def __init__(self) -> None:
        self._has: dict[str, bool] = {}
        self._modules: dict[str, Module | str] = {}

    def has(self, module: str) -> bool:
        if module not in self._has:
            self._has[module] = find_module(module) is not None
        return self._has[module]

    def module(self, name: str) -> Module | None:
        found = self._read(name)
        return found if isinstance(found, Module) else None

    def unreadable(self, name: str) -> str:
        found = self._read(name)
        return found if isinstance(found, str) else ""

    def children(self, package: str) -> list[str]:
        return submodules(find_module(package) if package else None)

    def live_class(self, dotted: str) -> type | None:
        """As `Modules.live_class`; None for a class with a custom metaclass, which may add names to subclasses."""
        module, _, name = dotted.rpartition(".")
        while module and module not in sys.modules:
            module, _, first = module.rpartition(".")
            name = f"{first}.{name}"
        found: Any = sys.modules.get(module or "builtins")
        for part in name.split("."):
            found = vars(found).get(part) if hasattr(found, "__dict__") else None
        return found if type(found) in (type, abc.ABCMeta) else None

    def _read(self, name: str) -> Module | str:
        if name not in self._modules:
            self._modules[name] = _parsed(name)
        return self._modules[name]


def _parsed(name: str) -> Module | str:
    """The module, or why there is none; the empty text for a package without an `__init__`."""
    found = find_module(name)
    if found is None:
        return f"there is no module {name}"
    if found.is_namespace:
        return ""
    origin = found.origin
    if origin is None or not origin.endswith(".py"):
        return f"{name} has no Python source"
    loader: Any = found.spec.loader if found.spec is not None else None
    get_data = getattr(loader, "get_data", None)
    try:
        text = get_data(origin) if get_data is not None else Path(origin).read_bytes()
        return Module(name, origin, text)
    except OSError as error:
        return f"{origin} cannot be read: {error}"
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return f"{name} cannot be parsed by Python {sys.version.partition(' ')[0]}"
