"""What the fast scan leaves to `importlib_metadata`: zip archives, eggs, odd names, and finders of others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sglang_platform.core.discovery.distribution import FoundDistribution, UnreadableMetadata, normalize

__all__ = ["found_by_finders"]


def found_by_finders(
    path: list[str] | None, unreadable: list[UnreadableMetadata]
) -> Iterator[FoundDistribution]:
    """Every distribution that `importlib_metadata` finds on `path` (None: wherever the process looks).

    What cannot be read of one distribution goes to `unreadable` and costs no other.
    """
    import importlib_metadata

    where: dict[str, Any] = {} if path is None else {"path": path}
    for distribution in importlib_metadata.distributions(**where):
        place = str(getattr(distribution, "_path", distribution))
        try:
            yield _found(distribution, place)
        except Exception as error:  # noqa: BLE001  (a foreign finder may raise anything; it is reported)
            unreadable.append(UnreadableMetadata(place, f"{type(error).__name__}: {error}"))


def _found(distribution: Any, place: str) -> FoundDistribution:
    has_metadata = any(distribution.read_text(name) for name in ("METADATA", "PKG-INFO", ""))
    name = version = None
    if has_metadata:
        name, version = distribution.metadata["Name"], distribution.metadata["Version"]
    # importlib_metadata's own answer to which distributions are one; not every finder's class has it.
    key = getattr(distribution, "_normalized_name", None) or normalize(name or place)
    return FoundDistribution(
        name=key,
        path=place,
        has_metadata=has_metadata,
        entry_points=[
            (point.group, point.name, point.value)
            for point in distribution.entry_points
            if "sglang" in point.group
        ],
        identity=(name, version),
    )
