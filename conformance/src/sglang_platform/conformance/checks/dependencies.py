"""Level 1: what the plugin's source imports is what its metadata asks pip for."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from importlib import metadata
from typing import NamedTuple

from sglang_platform.conformance.check import NotRun, check, expect
from sglang_platform.conformance.checks.packaging import installed
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.subject import Subject
from sglang_platform.core.discovery.distribution import normalize

__all__: list[str] = []


class Imported(NamedTuple):
    module: str
    place: str
    guarded: bool
    """Inside `try` with a handler: the plugin does without."""


@check(
    level=Level.PACKAGING,
    fix="add it to dependencies in pyproject.toml, or to an extra where the plugin does without it",
)
def dependencies_are_declared(subject: Subject) -> None:
    """Every package that the source imports is among the requirements, extras included; SGLang, the host, is free."""
    record = installed(subject)
    try:
        required = metadata.requires(record.origin.distribution or "") or []
    except metadata.PackageNotFoundError:
        raise NotRun(f"the metadata of {record.origin.distribution} cannot be found") from None
    declared = {normalize(_name(text)) for text in required} | {normalize(record.origin.distribution or "")}
    carriers = metadata.packages_distributions()
    own = {name.partition(".")[0] for name, _ in subject.sources}
    undeclared: dict[str, str] = {}
    for one in imports(subject):
        top = one.module.partition(".")[0]
        if (
            top in sys.stdlib_module_names
            or top in own - {"sglang_platform"}
            or top in ("sglang", "sgl_kernel")
        ):
            continue
        names = {normalize(name) for name in _carriers(one.module, carriers)}
        if one.guarded or names & declared:
            continue
        undeclared.setdefault(sorted(names)[0] if names else top, one.place)
    missing = [f"{name} (imported at {place})" for name, place in sorted(undeclared.items())]
    expect(not missing, f"imported and not required: {', '.join(missing)}")


def _carriers(module: str, known: dict[str, list[str]]) -> list[str]:
    """The distributions that bring a module. One that is not installed is taken to be named like its module."""
    top, _, rest = module.partition(".")
    if top == "sglang_platform":  # a namespace of several distributions
        return [f"sglang_platform_{rest.partition('.')[0]}"]
    return known.get(top, [top])


def imports(subject: Subject) -> Iterator[Imported]:
    """The absolute imports of all its files, those for type checkers left out."""
    for _, path in subject.sources:
        try:
            tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError):
            continue  # contract.platform_is_created, or the import itself, will say more
        yield from _imports(tree.body, str(path), guarded=False)


def _imports(body: list[ast.stmt], path: str, *, guarded: bool) -> Iterator[Imported]:
    for node in body:
        if isinstance(node, ast.Import):
            yield from (Imported(alias.name, f"{path}:{node.lineno}", guarded) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            # `from a import b`: b may be a module, which counts where a is a namespace of several distributions
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (Imported(name, f"{path}:{node.lineno}", guarded) for name in names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _imports(node.orelse, path, guarded=guarded)
        elif isinstance(node, ast.Try):
            yield from _imports(node.body, path, guarded=guarded or bool(node.handlers))
            for handler in node.handlers:
                yield from _imports(handler.body, path, guarded=True)
            yield from _imports(node.orelse + node.finalbody, path, guarded=guarded)
        else:
            for block in ("body", "orelse", "finalbody"):
                yield from _imports(getattr(node, block, []), path, guarded=guarded)


def _name(requirement: str) -> str:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return Requirement(requirement).name
    except InvalidRequirement:
        return requirement.partition(" ")[0]
