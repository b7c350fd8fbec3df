"""The metadata of installed distributions, read within the limits of `files`: versions and requirements.

`importlib.metadata` has no such limits: it also reads pipes, devices and endless files, and raises if there is none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from email.message import Message
from email.parser import HeaderParser

from sglang_platform.core.installed.files import Unread, metadata_text

__all__ = ["conflicts", "installed_version", "metadata_headers", "requirements"]


def installed_version(distribution: str) -> str | None:
    """The version of an installed distribution; None where there is none, or none that can be read."""
    import importlib_metadata

    try:
        return metadata_headers(distribution)["Version"]
    except (importlib_metadata.PackageNotFoundError, ValueError):
        return None


def metadata_headers(distribution: str) -> Message:
    """The header of its metadata. Raises PackageNotFoundError and Unread."""
    import importlib_metadata

    found = importlib_metadata.distribution(distribution)
    text = metadata_text(found, "METADATA") or metadata_text(found, "PKG-INFO")
    headers = HeaderParser().parsestr(text)
    if text.strip() and "Name" not in headers:
        raise Unread("it names no distribution")
    return headers


def requirements(distribution: str) -> list[str]:
    """The requirements of an installed distribution, as written. Raises PackageNotFoundError and Unread."""
    lines: list[str] = metadata_headers(distribution).get_all("Requires-Dist", [])
    if "\ufffd" in "".join(lines):
        raise Unread("a requirement in it is not UTF-8")
    return lines


def conflicts(distribution: str, among: Collection[str]) -> Iterator[tuple[str, str]]:
    """(requirement, `name version` installed) for each requirement on one of `among` that is not met.

    Extras count, since the `sglang` requirement with the supported range is in an extra. A requirement on a
    distribution that is not installed is not a conflict. Raises Unread.
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
