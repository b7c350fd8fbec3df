"""Installs stubs for modules that a device lacks, before SGLang imports them.

A platform names them in `stub_modules()`. Modules that this release of SGLang imports on every device are added, and on
CUDA and ROCm the compiled libraries that it imports there. A
module that can be imported is used as it is; a missing or failing one is replaced by a stub. Stubs are removed again if
SGLang chooses another platform. Unlike vendors' `sitecustomize.py` or `.pth` files, these stubs exist only in SGLang's
processes, and only for the active platform.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import logging
import sys
from collections.abc import Container, Mapping, Sequence
from types import ModuleType
from typing import Any, NoReturn

from sglang_platform.core.portable.parts import ABSENT
from sglang_platform.core.sglang.device import compiled_libraries
from sglang_platform.core.sglang.versions import facts

__all__ = ["AbsentModule", "install", "is_absent", "served", "withdraw"]

_logger = logging.getLogger(__name__)


class AbsentModule(ModuleType):
    """A stub module: every public name can be imported, and raises NotImplementedError when called.

    `functions` are served instead; importing a name in `handled` raises ImportError, for which SGLang is prepared.
    """

    def __init__(
        self, name: str, functions: Mapping[str, Any] | None = None, handled: Container[str] = ()
    ) -> None:
        super().__init__(name)
        self.__dict__.update(functions or {})
        setattr(self, ABSENT, True)
        self._handled = handled

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in self._handled:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        where = f"{self.__name__}.{name}"

        def absent(*args: Any, **kwargs: Any) -> NoReturn:
            raise NotImplementedError(
                f"{where}() was called, and {where.partition('.')[0]} is not installed or does not load on this "
                "device: switch off the feature that needs it, or install it"
            )

        absent.__name__ = absent.__qualname__ = name
        return absent


class _StubFinder(importlib.abc.MetaPathFinder):
    """The first finder in `sys.meta_path`, for the declared names only. Prefers a real module to a stub."""

    delegates = True  # what it finds itself is not installed

    def __init__(self, modules: Mapping[str, ModuleType | None]) -> None:
        self.modules = dict(modules)
        for name in modules:
            # SGLang's own packages exist; if one fails to load, that is an error.
            while "." in name and not name.startswith("sglang."):
                name = name.rpartition(".")[0]
                self.modules.setdefault(name, None)
        self.served: dict[str, ModuleType] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in self.modules:
            return None
        for finder in sys.meta_path:
            real = None if finder is self else finder.find_spec(name, path, target)
            if real is not None:
                if real.loader is not None:
                    real.loader = _RealFirst(real.loader, self, name)
                return real
        return importlib.machinery.ModuleSpec(name, _StubLoader(self), origin="stub", is_package=True)

    def stub(self, name: str) -> ModuleType:
        return self.modules[name] or ModuleType(name, "Stands in for a library that this device lacks.")

    def note(self, name: str, module: ModuleType, why: str) -> None:
        level = logging.DEBUG if name.rpartition(".")[0] in self.served else logging.INFO
        self.served[name] = module
        _logger.log(level, "%s is a stub in this process: it %s", name, why)


class _StubLoader(importlib.abc.Loader):
    def __init__(self, finder: _StubFinder) -> None:
        self._finder = finder

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return self._finder.stub(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        self._finder.note(module.__spec__.name, module, "is not installed")


class _RealFirst(importlib.abc.Loader):
    """Executes the real module; if its imports or libraries fail, replaces it with the stub."""

    def __init__(self, real: Any, finder: _StubFinder, name: str) -> None:
        self._real, self._finder, self._name = real, finder, name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._real.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        try:
            self._real.exec_module(module)
        except (ImportError, OSError) as error:
            for loaded in [name for name in sys.modules if name.startswith(f"{self._name}.")]:
                del sys.modules[loaded]
            stub = self._finder.stub(self._name)
            stub.__spec__, stub.__path__ = module.__spec__, []
            sys.modules[self._name] = stub  # the import system returns this entry after exec_module
            self._finder.note(self._name, stub, f"is installed and does not load: {error}")


_finder: _StubFinder | None = None


def install(platform: Any) -> None:
    """Serve the stubs that `platform` declares from now on.

    Called when SGLang instantiates the platform, while it imports its first modules. Idempotent.
    """
    global _finder
    if _finder is not None:
        return
    needed = facts().imports_everywhere.union(
        () if platform.is_out_of_tree() else compiled_libraries.imported_on(platform)
    )
    modules = {**{name: _absent(name) for name in needed}, **platform.stub_modules()}
    if modules:
        _finder = _StubFinder(modules)
        sys.meta_path.insert(0, _finder)


def _absent(name: str) -> AbsentModule:
    # Imports torch, which SGLang has imported before it asks for a platform.
    from sglang_platform.core.sglang.ops.compiled_functions import FUNCTIONS

    return AbsentModule(name, FUNCTIONS.get(name), compiled_libraries.HANDLED)


def is_absent(library: str) -> bool:
    """Whether `library` is not installed, or does not load; it is imported to find out."""
    try:
        return getattr(importlib.import_module(library), ABSENT, False)
    except (ImportError, OSError):
        return True


def withdraw() -> None:
    """Stop serving stubs, and remove the imported ones from `sys.modules`."""
    global _finder
    if _finder is None:
        return
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    for name, module in _finder.served.items():
        if sys.modules.get(name) is module:
            del sys.modules[name]
    _finder = None


def served() -> tuple[str, ...]:
    """The names of the stubs that were imported in this process."""
    return tuple(sorted(_finder.served)) if _finder is not None else ()
