"""What a layer hands to attention, as the kernels take it."""

from __future__ import annotations

from enum import Enum
from typing import Any

import torch

from sglang_platform.core.errors import PlatformError

__all__ = ["is_causal", "joined", "kv_scale", "unserved"]


def joined(x: torch.Tensor, rope: torch.Tensor | None, heads: int, dim: int) -> torch.Tensor:
    """[T, heads, dim], from one tensor or from the two parts that a host may hand over."""
    if rope is None:
        return x.reshape(-1, heads, dim)
    rotated = rope.reshape(x.shape[0], heads, -1)
    return torch.cat((x.reshape(x.shape[0], heads, dim - rotated.shape[-1]), rotated), dim=-1)


def kv_scale(scale: Any, device: torch.device | str) -> torch.Tensor | None:
    """A layer's scale as the kernels take it, None for none: float32 of one element. A number, as SGLang writes scales
    that it reads from a file, is filled in by a kernel, which a capture records like any other."""
    if scale is None or (isinstance(scale, torch.Tensor) and scale.dtype == torch.float32):
        return scale
    if isinstance(scale, (int, float)):
        return torch.full((1,), float(scale), dtype=torch.float32, device=device)
    raise PlatformError(
        f"a KV scale of type {type(scale).__name__} cannot be used",
        why="kernels read scales on the device, as float32 tensors of one element",
    )


def unserved(layer: Any) -> list[str]:
    """The constants of a layer that the kernels do not compute, by the names of SGLang's `RadixAttention`."""
    asked = {
        "is_cross_attention": layer.is_cross_attention,
        "use_irope (attention in chunks)": layer.use_irope,
        f"pos_encoding_mode={layer.pos_encoding_mode}": layer.pos_encoding_mode != "NONE",
        f"xai_temperature_len={layer.xai_temperature_len}": layer.xai_temperature_len > 0,
        f"logit_capping_method={layer.logit_capping_method}": bool(layer.logit_cap)
        and layer.logit_capping_method != "tanh",
    }
    return [name for name, value in asked.items() if value]


def is_causal(layer: Any) -> bool:
    # The host's AttentionType: "encoder_only" and "decoder_bidirectional" see all tokens of their request.
    kind = layer.attn_type.value if isinstance(layer.attn_type, Enum) else layer.attn_type
    return kind not in ("encoder_only", "decoder_bidirectional")
