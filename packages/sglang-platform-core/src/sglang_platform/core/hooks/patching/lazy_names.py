"""Hooks on names that a module makes on first use, in its `__getattr__`."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

__all__ = ["LazyNames"]


class LazyNames:
    """Stands in for a module's `__getattr__` and lets the engine hook a wanted name before its first user has it."""

    def __init__(self, module: ModuleType, name: str, made: Callable[[str, str], None]) -> None:
        self._module = module
        self._made = made
        self._original: Callable[[str], Any] = module.__dict__["__getattr__"]
        self.wanted = {name}
        module.__dict__["__getattr__"] = self

    def __call__(self, name: str) -> Any:
        value = self._original(name)
        if name not in self.wanted:
            return value
        names = self._module.__dict__
        names.setdefault(name, value)
        self._made(self._module.__name__, name)
        return names[name]

    @property
    def is_installed(self) -> bool:
        return self._module.__dict__.get("__getattr__") is self

    def remove(self) -> None:
        if self.is_installed:
            self._module.__dict__["__getattr__"] = self._original
