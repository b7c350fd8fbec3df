"""Level 1: what the plugin's source imports is what its metadata asks pip for."""

from __future__ import annotations

import sys
from importlib import metadata

from sglang_platform.conformance.check import NotRun, check, expect
from sglang_platform.conformance.checks.packaging import installed
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.subject import Subject
from sglang_platform.core.discovery.distribution import normalize
from sglang_platform.devtools.source.imports import Imported, imports_of

__all__: list[str] = []


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
    found = [(one, path) for _, path in subject.sources for one in imports_of(path)]
    for one, path in found:
        top = one.module.partition(".")[0]
        if (
            top in sys.stdlib_module_names
            or top in own - {"sglang_platform"}
            or top in ("sglang", "sgl_kernel")
        ):
            continue
        names = {normalize(name) for name in _carriers(one, carriers)}
        if one.guarded or one.instead_of or names & declared:
            continue
        undeclared.setdefault(sorted(names)[0] if names else top, f"{path}:{one.line}")
    missing = [f"{name} (imported at {place})" for name, place in sorted(undeclared.items())]
    expect(not missing, f"imported and not required: {', '.join(missing)}")


def _carriers(one: Imported, known: dict[str, list[str]]) -> list[str]:
    """The distributions that bring a module. One that is not installed is taken to be named like its module."""
    # `from a import b`: b may be a module, which counts where a is a namespace of several distributions
    top, _, rest = f"{one.module}.{one.name or ''}".partition(".")
    if top == "sglang_platform":
        return [f"sglang_platform_{rest.partition('.')[0]}"]
    return known.get(top, [top])


def _name(requirement: str) -> str:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return Requirement(requirement).name
    except InvalidRequirement:
        return requirement.partition(" ")[0]
