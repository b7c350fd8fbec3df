"""Why mutations of the packages survive: each changes nothing that can be noticed, or waits for a check."""

from __future__ import annotations

from judged import Judged

__all__ = ["explanation"]

REASONS: dict[str, str] = {}


def explanation(judged: Judged) -> str | None:
    """The reason, or None where nobody has given one."""
    return REASONS.get(judged.name)
