"""The shape of a model that people serve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ServedShape"]


@dataclass(frozen=True)
class ServedShape:
    """heads: (query heads, key heads). dims: (head_dim, v_head_dim), of latent attention (kv_lora_rank,
    qk_rope_head_dim). features: what its layers ask of attention. What follows is 0 or empty where it is not known:
    layers; inner: of the dense MLP; experts, those that a token goes through, and their inner size; context: tokens;
    rope: theta, scaling, share of head_dim."""

    name: str
    heads: tuple[int, int]
    dims: tuple[int, int]
    hidden: int
    kind: str = "mha"
    features: Mapping[str, Any] = field(default_factory=dict)
    layers: int = 0
    inner: int = 0
    experts: int = 0
    experts_per_token: int = 0
    expert_inner: int = 0
    context: int = 0
    rope: Mapping[str, Any] = field(default_factory=dict)

    @property
    def grouping(self) -> str:
        """The word of `attention_features` for its heads."""
        if self.kind == "mla":
            return "mla"
        query, key = self.heads
        return "mha" if query == key else "mqa" if key == 1 else "gqa"
