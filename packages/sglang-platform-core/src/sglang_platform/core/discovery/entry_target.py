"""Whether an entry point leads somewhere, read from the files, without importing what it names."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path

from sglang_platform.core.discovery.module_search import find
from sglang_platform.core.spelling import nearest

__all__ = ["only_importable_from_here", "target_problem", "top_level"]


def target_problem(value: str) -> str | None:
    """What is wrong with `pkg.mod:attribute`, or None where it is right or cannot be told without importing."""
    module, colon, attribute = value.partition("[")[0].replace(" ", "").partition(":")
    if not module or (colon and not attribute):
        return f"{value!r} is no object reference (`pkg.mod:function`)"
    if not colon:
        return f"{value!r} names a module, not a function in one"
    spec, missing = find(module)
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
    return find(module)[0] is not None and find(module, elsewhere)[0] is None


def _names_in(spec: ModuleSpec) -> set[str] | None:
    """The names a module's source defines at its top level; None where the source cannot tell."""
    if spec.origin is None or not spec.origin.endswith(".py"):
        return None
    try:
        tree = ast.parse(Path(spec.origin).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None  # the import itself will say more
    names: set[str] = set()
    for statement in top_level(tree.body):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(statement.name)
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            names.update(alias.asname or alias.name.partition(".")[0] for alias in statement.names)
        else:
            names.update(node.id for node in ast.walk(statement) if isinstance(node, ast.Name))
    return None if {"*", "__getattr__", "globals", "setattr", "exec"} & names else names


def top_level(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run in the module's own scope, those in `if`, `try`, `with` and loops included."""
    for statement in body:
        yield statement
        for block in ("body", "orelse", "finalbody"):
            if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield from top_level(getattr(statement, block, ()))
        for handler in getattr(statement, "handlers", ()):
            yield from top_level(handler.body)
