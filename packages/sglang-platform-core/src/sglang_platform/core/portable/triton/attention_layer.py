"""What a layer hands to attention, as the kernels take it."""

from __future__ import annotations

from typing import Any

import torch

from sglang_platform.core.errors import PlatformError

__all__ = ["is_causal", "joined", "kv_scale"]


def joined(x: torch.Tensor, rope: torch.Tensor | None, heads: int, dim: int) -> torch.Tensor:
    """[T, heads, dim], from one tensor or from the two parts that a host may hand over."""
    if rope is None:
        return x.reshape(-1, heads, dim)
    rotated = rope.reshape(x.shape[0], heads, -1)
    return torch.cat((x.reshape(x.shape[0], heads, dim - rotated.shape[-1]), rotated), dim=-1)


def kv_scale(scale: Any) -> torch.Tensor | None:
    """A layer's scale as the kernels take it, None for none. A number needs a tensor, which capture could not make."""
    if scale is None or (isinstance(scale, torch.Tensor) and scale.dtype == torch.float32):
        return scale
    raise PlatformError(
        f"a KV scale of type {type(scale).__name__} cannot be used",
        why="kernels read scales on the device, as float32 tensors of one element",
    )


def is_causal(layer: Any) -> bool:
    # The host's AttentionType: "encoder_only" and "decoder_bidirectional" see all tokens of their request.
    return getattr(layer.attn_type, "value", layer.attn_type) not in ("encoder_only", "decoder_bidirectional")
