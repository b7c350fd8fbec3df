"""A layer's attention parameters, in the form that the kernels take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch

from sglang_platform.core.errors import PlatformError
from sglang_platform.core.portable.triton.attention_shapes import one_element

__all__ = ["LayerRule", "is_causal", "joined", "kv_scale", "refuse_unserved", "rule_of"]


@dataclass(frozen=True, kw_only=True)
class LayerRule:
    """The attention parameters of a layer for decode and extend.

    scale: of the scores. logit_cap: 0 for none. window: how many earlier positions are seen, -1 for all. sinks float
    [Hq]: one more logit per head. k_scale, v_scale: float32 of one element, the factors of stored fp8 values.
    """

    scale: float
    logit_cap: float = 0.0
    window: int = -1
    sinks: torch.Tensor | None = None
    k_scale: torch.Tensor | None = None
    v_scale: torch.Tensor | None = None

    def values(self, q: torch.Tensor) -> tuple[Any, ...]:
        """The kernels' arguments, in their order. `q` is a placeholder for absent tensors."""
        sinks = q if self.sinks is None else self.sinks
        return sinks, *one_element(q, self.k_scale, self.v_scale), self.scale, self.logit_cap, self.window

    def flags(self) -> dict[str, bool]:
        """The kernels' constants: which features are used."""
        return {
            "SCALED": self.k_scale is not None or self.v_scale is not None,
            "CAPPED": self.logit_cap > 0,
            "SINKS": self.sinks is not None,
        }


def rule_of(
    layer: Any, sinks: torch.Tensor | None, device: torch.device | str, *, scaled: bool, latent: bool
) -> dict[str, Any]:
    """`LayerRule` of a layer, as keywords. scaled: its cache is read with scales; latent: it holds latent rows."""
    window = layer.sliding_window_size
    # The value is the latent part of the key, so it has the key's scale.
    v_scale = layer.k_scale if latent else layer.v_scale
    return {
        "scale": layer.scaling,
        "logit_cap": layer.logit_cap or 0.0,
        "window": -1 if window is None else int(window),
        "sinks": sinks,
        "k_scale": kv_scale(layer.k_scale, device) if scaled else None,
        "v_scale": kv_scale(v_scale, device) if scaled else None,
    }


def joined(x: torch.Tensor, rope: torch.Tensor | None, heads: int, dim: int) -> torch.Tensor:
    """[T, heads, dim], from one tensor or from the two parts that a host may hand over."""
    if rope is None:
        return x.reshape(-1, heads, dim)
    rotated = rope.reshape(x.shape[0], heads, -1)
    return torch.cat((x.reshape(x.shape[0], heads, dim - rotated.shape[-1]), rotated), dim=-1)


def kv_scale(scale: Any, device: torch.device | str) -> torch.Tensor | None:
    """A layer's scale as a float32 tensor of one element; None without a scale. A number, SGLang's form for scales read
    from a file, is written by a fill kernel, which a capture records like any other."""
    if scale is None or (isinstance(scale, torch.Tensor) and scale.dtype == torch.float32):
        return scale
    if isinstance(scale, (int, float)):
        return torch.full((1,), float(scale), dtype=torch.float32, device=device)
    raise PlatformError(
        f"a KV scale of type {type(scale).__name__} cannot be used",
        why="kernels read scales on the device, as float32 tensors of one element",
    )


def refuse_unserved(backend: Any, unknown: Mapping[str, Any], forward_batch: Any) -> None:
    """Raise PlatformError for arguments that the forward of `backend` does not name and would otherwise ignore."""
    asked = [name for name, value in unknown.items() if value is not None and value is not False]
    if forward_batch.mha_return_lse:
        asked.append("mha_return_lse")
    if asked:
        raise PlatformError(
            f"{type(backend).__name__} does not serve what this model asks of attention: {', '.join(asked)}",
            why="its numbers would be others without",
            fix="leave out --attention-backend, or choose another",
        )


def is_causal(layer: Any) -> bool:
    # The host's AttentionType: "encoder_only" and "decoder_bidirectional" see all tokens of their request.
    kind = layer.attn_type.value if isinstance(layer.attn_type, Enum) else layer.attn_type
    return kind not in ("encoder_only", "decoder_bidirectional")
