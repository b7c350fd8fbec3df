"""Level 1: what the plugin's source imports is what its metadata asks pip for."""

from __future__ import annotations

import re
import sys
from importlib import metadata

from sglang_platform.conformance.check import check, expect
from sglang_platform.conformance.checks.packaging import installed, metadata_of
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.subject import Subject
from sglang_platform.core.discovery.distribution import normalize
from sglang_platform.devtools.source.imports import Imported, imports_of

__all__: list[str] = []

_NAME = re.compile(r"[\w.-]*")
"""A requirement begins with it."""


@check(
    level=Level.PACKAGING,
    fix="add it to dependencies in pyproject.toml, or to an extra where the plugin does without it",
)
def dependencies_are_declared(subject: Subject) -> None:
    """Every package that the source imports is among the requirements, extras included; SGLang, the host, is free."""
    record = installed(subject)
    about = metadata_of(record)
    names = [about.metadata["Name"], *(_NAME.match(text).group() for text in about.requires or [])]  # type: ignore[union-attr]
    declared = set(map(normalize, names))
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
