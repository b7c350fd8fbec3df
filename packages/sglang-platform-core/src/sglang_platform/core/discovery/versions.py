"""Versions of installed distributions and of what they ask for, from metadata alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator

__all__ = ["conflicts", "installed_version"]


def installed_version(distribution: str) -> str | None:
    """The version of an installed distribution, or None."""
    import importlib_metadata

    try:
        return importlib_metadata.version(distribution)
    except (importlib_metadata.PackageNotFoundError, FileNotFoundError, KeyError):
        return None


def conflicts(distribution: str, among: Collection[str]) -> Iterator[tuple[str, str]]:
    """(requirement, `name version` installed) for each requirement on one of `among` that is not met.

    Extras count: `sglang` stands in one, and its range is what the distribution was made for. A requirement on
    something that is not installed is no conflict.
    """
    import importlib_metadata
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    wanted = set(map(canonicalize_name, among))
    try:
        lines = importlib_metadata.requires(distribution) or []
    except (importlib_metadata.PackageNotFoundError, FileNotFoundError):
        return
    for line in lines:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        if canonicalize_name(requirement.name) not in wanted:
            continue
        found = installed_version(requirement.name)
        if found is not None and not requirement.specifier.contains(found, prereleases=True):
            yield f"{requirement.name}{requirement.specifier}", f"{requirement.name} {found}"
