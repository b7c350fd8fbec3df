"""What the metadata of an installed distribution says, read within the limits of `contents`.

`importlib.metadata` reads whatever stands there, pipes, devices and files without end, and raises where there is none.
"""

from __future__ import annotations

from email.message import Message
from email.parser import HeaderParser

from sglang_platform.core.installed.files import Unread, metadata_text

__all__ = ["installed_version", "metadata_headers"]


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
