"""Who a part is, told by an attribute of its class.

The adapter re-bases pools and backends on SGLang's classes and wraps quantisation methods, and a plugin may be
installed twice under two names: the tag stays on the class through all of it, and reading it imports nothing.
"""

from __future__ import annotations

from typing import Any

__all__ = ["HIERARCHICAL_POOL", "READS_SLOT_MAP", "TOKEN_POOL", "has_tag"]

TOKEN_POOL = "_is_v4_token_pool"
HIERARCHICAL_POOL = "_is_v4_hierarchical_pool"
READS_SLOT_MAP = "_reads_slot_map"
"""Core's, of attention backends: their kernels look up where a slot's row lies."""


def has_tag(part: Any, tag: str) -> bool:
    """Whether the class of `part` says so; an attribute of the object alone does not count."""
    return bool(getattr(type(part), tag, False))
