"""Target names, and finding the module they live in without importing anything."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import BuiltinImporter, FrozenImporter, ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, NamedTuple

from sglang_platform.core.errors import HookTargetError

__all__ = ["Address", "MissingModule", "Target", "find_module", "nearest", "parse", "resolve", "submodules"]


class Target(NamedTuple):
    """A parsed target. `key` is the same for both spellings; `module` is None where the name does not tell."""

    key: str
    module: str | None
    path: tuple[str, ...]


class Address(NamedTuple):
    """A target whose module is known."""

    module: str
    path: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.module}:{'.'.join(self.path)}"


class MissingModule(NamedTuple):
    """No module found for a target: what was looked for, and the nearest name that exists."""

    why: str
    nearest: tuple[str, ...]


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
        return None if path is None else list(path)

    @property
    def is_namespace(self) -> bool:
        """A package without an `__init__`: several folders may share it."""
        spec = self.spec
        return spec is not None and spec.origin is None and spec.submodule_search_locations is not None


def parse(spelling: str) -> Target:
    """Read ``pkg.mod:Class.attr`` or ``pkg.mod.Class.attr``. Raises HookTargetError for anything else."""
    text = spelling if isinstance(spelling, str) else ""
    module, colon, qualname = text.partition(":")
    key = text.replace(":", ".", 1)
    parts = key.split(".")
    if len(parts) < 2 or not all(map(str.isidentifier, parts)) or (colon and not (module and qualname)):
        raise HookTargetError(
            f"{spelling!r} is not a hook target",
            fix="name a module and an attribute: 'pkg.mod:function', 'pkg.mod:Class.method' or the dotted form",
        )
    return Target(key, module if colon else None, tuple((qualname if colon else key).split(".")))


def resolve(target: Target) -> Address | MissingModule:
    """Split a target into module and attribute path: the longest prefix that is a module, the last part never."""
    parts = target.key.split(".")
    first = len(target.module.split(".")) if target.module else 1
    name, found = _longest_loaded(parts)
    for count in range(name.count(".") + 2 if name else 1, len(parts)):
        if found is not None and found.search_path is None and count > first:
            break
        candidate = ".".join(parts[:count])
        step = find_module(candidate, found)
        if step is None:
            if count > first:
                break
            return _missing(parts[count - 1], name, found)
        name, found = candidate, step
    return Address(name, tuple(parts[len(name.split(".")) :]))


def find_module(name: str, parent: Found | None = None) -> Found | None:
    """The module `name` as it is loaded or would be found; `parent` saves looking its package up again."""
    module = sys.modules.get(name)
    if module is not None:
        return Found(module, object.__getattribute__(module, "__dict__").get("__spec__"))
    package = name.rpartition(".")[0]
    if not package:
        spec = BuiltinImporter.find_spec(name) or FrozenImporter.find_spec(name) or _search(name, sys.path)
        path = None
    else:
        above = parent or find_module(package)
        path = above.search_path if above is not None else None
        if path is None:
            return None
        spec = _search(name, path)
    spec = spec or _ask_other_finders(name, path)
    return None if spec is None else Found(None, spec)


def submodules(found: Found | None) -> list[str]:
    """The names that could be imported from a package, or from `sys.path` for None."""
    import pkgutil

    path = found.search_path if found is not None else None
    if found is not None and path is None:
        return []  # a plain module
    return [info.name for info in pkgutil.iter_modules(path)]


def nearest(name: str, names: Iterable[str]) -> tuple[str, ...]:
    import difflib

    return tuple(difflib.get_close_matches(name, list(dict.fromkeys(names)), n=3, cutoff=0.6))


def _longest_loaded(parts: list[str]) -> tuple[str, Found | None]:
    for count in range(len(parts) - 1, 0, -1):
        name = ".".join(parts[:count])
        if sys.modules.get(name) is not None:
            return name, find_module(name)
    return "", None


def _missing(part: str, package: str, found: Found | None) -> MissingModule:
    where = f"the package {package!r} has" if package else "there is"
    prefix = f"{package}." if package else ""
    return MissingModule(
        f"{where} no module {part!r}", tuple(prefix + name for name in nearest(part, submodules(found)))
    )


def _search(name: str, path: Sequence[str]) -> ModuleSpec | None:
    """Ask each folder of `path`. `PathFinder` is not used because its namespace packages need an imported parent."""
    from pkgutil import get_importer

    portions: list[str] = []
    for entry in path:
        importer: Any = get_importer(entry)
        spec = importer.find_spec(name) if importer is not None else None
        if spec is None:
            continue
        if spec.loader is not None:
            return spec  # type: ignore[no-any-return]
        portions.extend(spec.submodule_search_locations or ())
    if not portions:
        return None
    namespace = ModuleSpec(name, None, is_package=True)
    namespace.submodule_search_locations = portions
    return namespace


def _ask_other_finders(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """Editable installs and the like bring finders of their own."""
    for finder in list(sys.meta_path):
        if finder in (BuiltinImporter, FrozenImporter, PathFinder) or getattr(finder, "delegates", False):
            continue
        find = getattr(finder, "find_spec", None)
        try:
            spec = find(name, path, None) if find is not None else None
        except (ImportError, KeyError):  # finders that rely on the parent package being imported
            continue
        if spec is not None:
            return spec  # type: ignore[no-any-return]
    return None
