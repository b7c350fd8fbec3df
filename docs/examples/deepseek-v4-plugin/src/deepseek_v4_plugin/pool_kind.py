"""The kind of the plugin's pools. Adapter and conformance suite take both from `base`: a pool of latent rows."""

from __future__ import annotations

from sglang_platform.core.registries import PoolKind

__all__ = ["KIND"]

KIND = PoolKind(
    name="v4_token",
    row="the row of mla; those of all layers of a token side by side",
    base="sglang_platform.core.memory.mla:MLATokenToKVPool",
)
"""What the contract knows of it: nothing in core names it."""
