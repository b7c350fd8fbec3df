"""What installed distributions ask for, from metadata alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sglang_platform.core.installed.distributions import installed_version, metadata_headers
from sglang_platform.core.installed.files import Unread

__all__ = ["conflicts", "requirements"]


def requirements(distribution: str) -> list[str]:
    """What an installed distribution asks for, a line each, as written. Raises PackageNotFoundError and Unread."""
    lines: list[str] = metadata_headers(distribution).get_all("Requires-Dist", [])
    if "\ufffd" in "".join(lines):
        raise Unread("a requirement in it is not UTF-8")
    return lines


def conflicts(distribution: str, among: Collection[str]) -> Iterator[tuple[str, str]]:
    """(requirement, `name version` installed) for each requirement on one of `among` that is not met.

    Extras count: `sglang` stands in one, and its range is what the distribution was made for. A requirement on
    something that is not installed is no conflict. Raises Unread.
    """
    import importlib_metadata
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name
    from packaging.version import InvalidVersion

    wanted = set(map(canonicalize_name, among))
    try:
        lines = requirements(distribution)
    except importlib_metadata.PackageNotFoundError:
        return
    for line in lines:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        if canonicalize_name(requirement.name) not in wanted:
            continue
        found = installed_version(requirement.name)
        try:
            met = found is None or requirement.specifier.contains(found, prereleases=True)
        except InvalidVersion:
            met = False
        if not met:
            yield f"{requirement.name}{requirement.specifier}", f"{requirement.name} {found}"
