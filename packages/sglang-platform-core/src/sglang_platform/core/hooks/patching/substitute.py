"""Replacement of one object by another: a class by a class, a kernel by a kernel."""

from __future__ import annotations

import sys
from typing import Any

from sglang_platform.core.hooks.references.swaps import Swap
from sglang_platform.core.hooks.targets import Place, own_names

__all__ = ["Substitute", "home_module"]


class Substitute:
    """The replacement installed in a place, with the record that is needed to undo it."""

    def __init__(self, replacement: Any, place: Place) -> None:
        self._replacement, self._place = replacement, place
        self._home = home_module(replacement)
        self._knew_it = {
            name
            for name, module in sys.modules.copy().items()
            if own_names(module).get(place.name) is replacement
        }
        """The modules that had the replacement under the target's name before it was installed."""
        self._own_name: tuple[str, str] | None = None
        if isinstance(replacement, type) and "<locals>" in replacement.__qualname__:
            # Pickle finds a class by its name. A local class cannot be found by its name, so it takes the target's.
            self._own_name = replacement.__module__, replacement.__qualname__
            replacement.__module__, replacement.__qualname__ = place.raw.__module__, place.raw.__qualname__

    def arrival(self) -> Swap:
        """The swap to the replacement. The module that defines it keeps the original, which it may call."""
        return Swap(self._place.raw, self._replacement, kept=frozenset([self._home]))

    def departure(self) -> Swap:
        """The swap back to the original. Modules that had the replacement before keep it."""
        if self._own_name is not None:
            self._replacement.__module__, self._replacement.__qualname__ = self._own_name
        kept = frozenset(self._knew_it | self._modules_of_its_own())
        return Swap(self._replacement, self._place.raw, kept=kept, name=self._place.name)

    def _modules_of_its_own(self) -> set[str]:
        """All modules of the replacement's package; only its module if that is also the target's package."""
        package = _package(self._home)
        if package == _package(str(getattr(self._place.raw, "__module__", ""))):
            return {self._home}
        return {name for name in list(sys.modules) if _package(name) == package}


def home_module(hook: Any) -> str:
    """The module that defines a hook."""
    return str(getattr(hook, "__module__", None) or type(hook).__module__)


def _package(module: str) -> str:
    return module.partition(".")[0]
