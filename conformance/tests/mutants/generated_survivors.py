"""Why generated mutations survive: each is a change that changes nothing, or that no engine can notice."""

from __future__ import annotations

from generated_mutations import Mutation

__all__ = ["explanation"]

REASONS: dict[str, str] = {}


def explanation(mutation: Mutation) -> str | None:
    """The reason, or None where nobody has given one."""
    return REASONS.get(mutation.name)
