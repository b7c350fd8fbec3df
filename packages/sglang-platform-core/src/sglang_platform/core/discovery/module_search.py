"""Finding a module and its parent packages without importing any of them.

Needs the standard library only, so that its text can be run by an interpreter that cannot import this project: see
`found_by_a_fresh_interpreter`.
"""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.machinery import BuiltinImporter, FrozenImporter, ModuleSpec, PathFinder
from pathlib import Path

__all__ = ["find", "found_by_a_fresh_interpreter", "interpreter_flags"]

_STANDARD = (BuiltinImporter, FrozenImporter, PathFinder)


def find(module: str, path: Sequence[str] | None = None) -> tuple[ModuleSpec | None, str]:
    """The spec of `module`, parents included but not imported; or None and the part that is missing.

    `path` stands in for `sys.path`.
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
    """Editable installs bring finders of their own, for packages inside namespace packages too."""
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
    """What the import system finds in these folders. Its own search of a package needs the package imported."""
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


def found_by_a_fresh_interpreter(
    modules: Sequence[str], distributions: Sequence[str]
) -> tuple[set[str], set[str]]:
    """Which modules and which distributions are found from an empty folder, without PYTHONPATH.

    Raises OSError or subprocess.SubprocessError where no such interpreter can be started.
    """
    import os

    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with tempfile.TemporaryDirectory() as empty:
        run = subprocess.run(
            [sys.executable, *interpreter_flags(), "-c", Path(__file__).read_text(encoding="utf-8")],
            input=json.dumps([list(modules), list(distributions)]),
            cwd=empty,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    found_modules, found_distributions = json.loads(run.stdout.splitlines()[-1])
    return set(found_modules), set(found_distributions)


def _answer() -> None:
    """The fresh interpreter's part: reads two lists from standard input, prints what of them it found."""
    from importlib.metadata import PackageNotFoundError, version

    def is_installed(distribution: str) -> bool:
        try:
            version(distribution)
        except (PackageNotFoundError, KeyError):
            return False
        return True

    modules, distributions = json.load(sys.stdin)
    found = [module for module in modules if find(module)[0] is not None]
    print(json.dumps([found, list(filter(is_installed, distributions))]))


if __name__ == "__main__":
    _answer()
