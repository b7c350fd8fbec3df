"""Finding a module and its parent packages without importing any of them.

Every process that registers a hook imports this file.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import BuiltinImporter, FrozenImporter, ModuleSpec, PathFinder
from types import ModuleType
from typing import NamedTuple

__all__ = ["Found", "find", "find_module", "interpreter_flags", "submodules"]

_STANDARD = (BuiltinImporter, FrozenImporter, PathFinder)


class Found(NamedTuple):
    """A module that is loaded, or that an import would find."""

    module: ModuleType | None
    spec: ModuleSpec | None

    @property
    def search_path(self) -> list[str] | None:
        """The folders of a package; None for a plain module."""
        if self.module is not None:
            path = object.__getattribute__(self.module, "__dict__").get("__path__")
        else:
            path = self.spec.submodule_search_locations if self.spec is not None else None
        try:
            return None if path is None else list(path)
        except KeyError:
            return None  # a namespace package whose parent failed to import meanwhile

    @property
    def origin(self) -> str | None:
        """The file."""
        if self.spec is not None and self.spec.has_location:
            return self.spec.origin
        if self.module is not None:  # frozen standard-library modules only have __file__
            found = object.__getattribute__(self.module, "__dict__").get("__file__")
            return found if isinstance(found, str) else None
        return None

    @property
    def is_namespace(self) -> bool:
        """A package without an `__init__`: several folders may share it."""
        spec = self.spec
        return spec is not None and not spec.has_location and spec.submodule_search_locations is not None


def find_module(name: str, parent: Found | None = None) -> Found | None:
    """The module `name` as loaded or as an import would find it; `parent` avoids another lookup of its package."""
    module = sys.modules.get(name)
    if module is not None:
        return Found(module, object.__getattribute__(module, "__dict__").get("__spec__"))
    package = name.rpartition(".")[0]
    if not package:
        spec = _ask_finders(name, None, ())
        return None if spec is None else Found(None, spec)
    above = parent or find_module(package)
    path = above.search_path if above is not None else None
    if path is None:
        return None
    spec = _in_folders(name, path) or _ask_finders(name, path, _STANDARD)
    return None if spec is None else Found(None, spec)


def submodules(found: Found | None) -> list[str]:
    """The names that could be imported from a package, or from `sys.path` for None."""
    import pkgutil

    path = found.search_path if found is not None else None
    if found is not None and path is None:
        return []  # a plain module
    return [info.name for info in pkgutil.iter_modules(path)]


def find(module: str, path: Sequence[str] | None = None) -> tuple[ModuleSpec | None, str]:
    """The spec of `module`, parents included but not imported; or None and the part that is missing.

    `path` replaces `sys.path`.
    """
    top, *rest = module.split(".")
    found = (
        _ask_finders(top, None, ())
        if path is None
        else _in_folders(top, path) or _ask_finders(top, None, (PathFinder,))
    )
    name = top
    for part in rest:
        if found is None:
            break
        name = f"{name}.{part}"
        folders = list(found.submodule_search_locations or ())
        found = _in_folders(name, folders) or _ask_finders(name, folders, _STANDARD)
    return found, name


def _ask_finders(name: str, path: Sequence[str] | None, without: Sequence[object]) -> ModuleSpec | None:
    """Search the finders on `sys.meta_path` except `without`: editable installs add finders of their own."""
    for finder in list(sys.meta_path):
        find_spec = getattr(finder, "find_spec", None)
        if find_spec is None or finder in without or getattr(finder, "delegates", False):
            continue
        try:
            found: ModuleSpec | None = find_spec(name, path)
        except (ImportError, KeyError):  # a finder that relies on the parent package being imported
            continue
        if found is not None:
            return found
    return None


def _in_folders(name: str, folders: Sequence[str]) -> ModuleSpec | None:
    """The spec in these folders. The import system's search would need the parent package imported."""
    import pkgutil

    portions: list[str] = []
    for folder in folders:
        finder = pkgutil.get_importer(folder or ".")
        found: ModuleSpec | None = finder.find_spec(name) if finder is not None else None
        if found is not None and found.loader is not None:
            return found
        portions.extend(found.submodule_search_locations or () if found is not None else ())
    if not portions:
        return None
    namespace = ModuleSpec(name, None, is_package=True)
    namespace.submodule_search_locations = portions
    return namespace


def interpreter_flags() -> list[str]:
    """The flags that make another interpreter see the same site folders as this one."""
    return ["-S"] * sys.flags.no_site + ["-s"] * sys.flags.no_user_site
