"""`entry_points.txt` as SGLang's loader reads it, and what in it would be lost without a word."""

from __future__ import annotations

from collections.abc import Iterator

from sglang_platform.core.discovery.groups import KNOWN_GROUPS

__all__ = ["entry_points", "may_name_plugins"]

_MENTION = b"sglang"


def may_name_plugins(text: bytes) -> bool:
    """Whether the file has the word, in whatever case and encoding; one of zero bytes alone lost what it had."""
    bare = text.replace(b"\0", b"")  # UTF-16 and UTF-32
    return _MENTION in bare.lower() or (not bare and bool(text))


def entry_points(text: bytes) -> list[tuple[str, str, str]]:
    """(group, name, value) of each entry point in a group of sglang's.

    Raises ValueError where a reader would stop, or pass over a group that is meant: that it has none is not known.
    """
    if b"\0" in text:
        raise ValueError("it is not UTF-8, but has zero bytes, as UTF-16 has")
    if text.startswith(b"\xef\xbb\xbf"):
        raise ValueError("it begins with a byte-order mark, which hides its first group")
    found = [point for point in _parse(text.decode("utf-8")) if "sglang" in point[0].lower()]
    for group, _, _ in found:
        meant = group.strip().lower()
        if group != meant and meant in KNOWN_GROUPS:
            raise ValueError(f"the group is written [{group}], which nobody reads; it must be [{meant}]")
    return found


def _parse(text: str) -> Iterator[tuple[str, str, str]]:
    group = None
    for line in map(str.strip, text.splitlines()):
        if not line or line.startswith("#"):
            continue
        if line.startswith("[") and line.endswith("]"):
            group = line.strip("[]")
        elif group is not None:
            name, equals, value = line.partition("=")
            if not equals:
                raise ValueError(f"the line {line!r} in [{group}] is not `name = value`")
            yield group, name.strip(), value.strip()
        elif "sglang" in line.lower():
            raise ValueError(f"the line {line!r} stands before any [group]")
