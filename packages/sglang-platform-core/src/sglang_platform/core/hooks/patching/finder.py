"""Detects that a module was executed, and patches it before other code can bind its names."""

from __future__ import annotations

import importlib
import sys
import threading
import time
from collections.abc import Callable, Container, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["HookFinder", "OnExecuted", "is_running", "loaded", "when_finished"]

_ABOUT_TO = 0.5
"""Timeout in seconds for a module that another thread is about to put into `sys.modules`."""

_locks: Container[str] = getattr(importlib._bootstrap, "_module_locks", ())
"""Names of the modules that any thread is importing now."""

OnExecuted = Callable[[ModuleType, str], None]
"""Called with a module that was just executed, and its name."""


class HookFinder:
    """First finder on `sys.meta_path`: delegates to the other finders and gives watched modules a patching loader.

    For all other modules it costs one dict lookup per import.
    """

    delegates = True  # finds nothing by itself

    def __init__(self, watched: Container[str], executed: OnExecuted) -> None:
        self._watched = watched
        self._executed = executed
        self._asking = threading.local()

    def install(self) -> None:
        if sys.meta_path[:1] != [self]:
            self.remove()
            sys.meta_path.insert(0, self)

    def remove(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._watched:
            return None
        names: set[str] = self._asking.__dict__.setdefault("names", set())
        if name in names:
            return None  # re-entrant: another finder searches sys.meta_path again
        names.add(name)
        try:
            spec = self._ask(name, path, target)
        finally:
            names.discard(name)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _PatchingLoader(spec.loader, self._executed)  # type: ignore[assignment]
        return spec

    def _ask(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is not self and find is not None:
                spec = find(name, path, target)
                if spec is not None:
                    return spec  # type: ignore[no-any-return]
        return None


class _PatchingLoader:
    """Wraps a module's loader until the module is executed; then the original loader is restored."""

    def __init__(self, loader: Any, executed: OnExecuted) -> None:
        self._loader = loader
        self._executed = executed

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        create = getattr(self._loader, "create_module", None)
        return create(spec) if create is not None else None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        spec = module.__spec__
        if spec is not None and spec.loader is self:  # type: ignore[comparison-overlap]
            name, spec.loader = spec.name, self._loader
        if module.__dict__.get("__loader__") is self:
            module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._executed(sys.modules.get(name, module), name)  # a module may replace itself in sys.modules

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class _WatchedSpec(ModuleSpec):
    """The spec of a module hooked during its import; detects when the import system marks the import finished."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_initializing" and not value:
            waiting = self.__dict__.pop("_waiting")
            self.__class__ = ModuleSpec  # type: ignore[assignment]
            try:
                for executed in waiting:
                    if self.name in sys.modules:  # a failed import has removed it
                        executed(sys.modules[self.name], self.name)
            finally:
                setattr(self, name, value)
        else:
            super().__setattr__(name, value)


def loaded(name: str) -> ModuleType | None:
    """The module in `sys.modules`. Waits up to 0.5 s for another thread that is already importing it."""
    until = time.monotonic() + _ABOUT_TO
    while name not in sys.modules and name in _locks and time.monotonic() < until:
        time.sleep(0.001)
    return sys.modules.get(name)


def is_running(module: ModuleType) -> bool:
    """True if the module's code is still being executed."""
    spec = object.__getattribute__(module, "__dict__").get("__spec__")
    return bool(getattr(spec, "_initializing", False))


def when_finished(module: ModuleType, executed: OnExecuted) -> bool:
    """Call `executed` once the module's running import succeeds; False if the import has already ended."""
    spec = object.__getattribute__(module, "__dict__").get("__spec__")
    if isinstance(spec, _WatchedSpec):
        waiting = spec.__dict__.get("_waiting")
        if waiting is None:
            return False
        if executed not in waiting:
            waiting.append(executed)
        return True
    if type(spec) is not ModuleSpec:
        return is_running(module)  # a subclass cannot be watched; the next `apply_hooks()` handles it
    spec.__dict__["_waiting"] = [executed]
    spec.__class__ = _WatchedSpec
    if is_running(module):
        return True
    spec.__class__ = ModuleSpec  # another thread's import ended in between
    spec.__dict__.pop("_waiting", None)
    return False
