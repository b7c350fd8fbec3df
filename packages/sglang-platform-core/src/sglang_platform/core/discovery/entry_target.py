"""Whether an entry point leads somewhere, read from the files, without importing what it names."""

from __future__ import annotations

import ast
import pkgutil
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from sglang_platform.core.discovery.spelling import nearest

__all__ = ["only_importable_from_here", "target_problem"]


def target_problem(value: str) -> str | None:
    """What is wrong with `pkg.mod:attribute`, or None where it is right or cannot be told without importing."""
    module, colon, attribute = value.partition("[")[0].replace(" ", "").partition(":")
    if not module or (colon and not attribute):
        return f"{value!r} is no object reference (`pkg.mod:function`)"
    if not colon:
        return f"{value!r} names a module, not a function in one"
    spec, missing = _find(module, None)
    if spec is None:
        return f"the module {missing!r} does not exist in this environment"
    name = attribute.partition(".")[0]
    names = _names_in(spec)
    if names is None or name in names:
        return None
    meant = nearest(name, names)
    return f"the module {module!r} does not define {name!r}" + (f"; did you mean {meant!r}?" if meant else "")


def only_importable_from_here(value: str) -> bool:
    """Whether the module is found in the working directory only, so that a process elsewhere lacks it."""
    module = value.partition("[")[0].partition(":")[0].strip()
    script_folder = sys.path[0] if sys.path else ""
    here = str(Path.cwd())
    elsewhere = [entry for entry in sys.path[1:] if entry not in ("", ".")]
    if script_folder not in ("", ".", here):
        elsewhere.insert(0, script_folder)
    return _find(module, None)[0] is not None and _find(module, elsewhere)[0] is None


def _find(module: str, path: Sequence[str] | None) -> tuple[ModuleSpec | None, str]:
    """The spec of `module`, parents included but not imported; or None and the part that is missing.

    `path` stands in for `sys.path`.
    """
    top, *rest = module.split(".")
    found = (
        _ask_finders(top, None) if path is None else _in_folders(top, path) or _ask_finders(top, PathFinder)
    )
    name = top
    for part in rest:
        if found is None:
            break
        name = f"{name}.{part}"
        found = _in_folders(name, list(found.submodule_search_locations or ()))
    return found, name


def _ask_finders(name: str, without: object) -> ModuleSpec | None:
    for finder in sys.meta_path:
        find_spec = getattr(finder, "find_spec", None)
        if find_spec is not None and finder is not without:
            found: ModuleSpec | None = find_spec(name, None)
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


def _names_in(spec: ModuleSpec) -> set[str] | None:
    """The names a module's source defines at its top level; None where the source cannot tell."""
    if spec.origin is None or not spec.origin.endswith(".py"):
        return None
    try:
        tree = ast.parse(Path(spec.origin).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None  # the import itself will say more
    names: set[str] = set()
    for statement in _top_level(tree.body):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(statement.name)
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            names.update(alias.asname or alias.name.partition(".")[0] for alias in statement.names)
        else:
            names.update(node.id for node in ast.walk(statement) if isinstance(node, ast.Name))
    return None if {"*", "__getattr__", "globals", "setattr", "exec"} & names else names


def _top_level(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run in the module's own scope, those in `if`, `try`, `with` and loops included."""
    for statement in body:
        yield statement
        for block in ("body", "orelse", "finalbody"):
            if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield from _top_level(getattr(statement, block, ()))
        for handler in getattr(statement, "handlers", ()):
            yield from _top_level(handler.body)
