"""A page for each level, with a section for each check: what it asks, why, its cases, tolerance, mistakes, fix.

record  what is known of a check, from the check itself and `why.toml`      text  the same as Markdown
"""

from __future__ import annotations

__all__ = ["page_of"]


def page_of(check: str) -> str:
    """Where the documentation tells about a check, from the root of the repository."""
    level, _, name = check.partition(".")
    return f"docs/checks/{level}.md#{name}"
