"""One object in the place of another by identity: a class for a class, a kernel for a kernel."""

from __future__ import annotations

import sys
from typing import Any

from sglang_platform.core.hooks.references.swaps import Swap
from sglang_platform.core.hooks.targets import Place, own_names

__all__ = ["Substitute", "home_module"]


class Substitute:
    """The object in a place instead of its original, with the record that its removal needs."""

    def __init__(self, replacement: Any, place: Place) -> None:
        self._replacement, self._place = replacement, place
        self._home = home_module(replacement)
        self._knew_it = {
            name
            for name, module in sys.modules.copy().items()
            if own_names(module).get(place.name) is replacement
        }
        """The modules that had the replacement under the target's name before it was put there."""
        self._own_name: tuple[str, str] | None = None
        if isinstance(replacement, type) and "<locals>" in replacement.__qualname__:
            # Pickle finds a class by its name. One made in a function has none to be found by but the one it takes.
            self._own_name = replacement.__module__, replacement.__qualname__
            replacement.__module__, replacement.__qualname__ = place.raw.__module__, place.raw.__qualname__

    def arrival(self) -> Swap:
        """The module that defines the replacement keeps the original, which the replacement may call."""
        return Swap(self._place.raw, self._replacement, kept=frozenset([self._home]))

    def departure(self) -> Swap:
        """Gives the original to later imports of the target's name; modules that knew the replacement keep it."""
        if self._own_name is not None:
            self._replacement.__module__, self._replacement.__qualname__ = self._own_name
        kept = frozenset(self._knew_it | self._modules_of_its_own())
        return Swap(self._replacement, self._place.raw, kept=kept, name=self._place.name)

    def _modules_of_its_own(self) -> set[str]:
        """All modules of the package that defines the replacement; within the target's own package its module only."""
        package = _package(self._home)
        if package == _package(str(getattr(self._place.raw, "__module__", ""))):
            return {self._home}
        return {name for name in list(sys.modules) if _package(name) == package}


def home_module(hook: Any) -> str:
    """The module that defines a hook."""
    return str(getattr(hook, "__module__", None) or type(hook).__module__)


def _package(module: str) -> str:
    return module.partition(".")[0]
