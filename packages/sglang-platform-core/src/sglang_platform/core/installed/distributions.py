"""The metadata of installed distributions, read within the limits of `files`: versions, requirements, files.

`importlib.metadata` has no such limits: it also reads pipes, devices and endless files, and raises if there is none.
"""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Collection, Iterator
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

from sglang_platform.core.installed.files import Unread, metadata_text

__all__ = ["conflicts", "installed_version", "metadata_headers", "recorded_files", "requirements"]


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


def recorded_files(distribution: str) -> Iterator[tuple[Path, str, str, str]]:
    """Path, name, digest and size of each file in its RECORD; none where it is not installed or has no RECORD.

    An editable installation's RECORD lists no sources.
    """
    import importlib_metadata

    try:
        found = importlib_metadata.distribution(distribution)
        record = metadata_text(found, "RECORD")
        root = Path(str(found.locate_file("")))
    except Exception:  # noqa: BLE001  (not installed, or damaged metadata: unknown)
        return
    for line in record.splitlines():
        with contextlib.suppress(csv.Error, StopIteration, ValueError):
            name, digest, size = next(csv.reader([line]))
            # Skip scripts, which lie outside: installers rewrite them.
            if name and not name.startswith(("/", "..")):
                yield root / name, name, digest, size


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
