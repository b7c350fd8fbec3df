"""The fused ops that every decoder reaches, each a few lines of torch in float32; the others are in `more_ops`."""

from __future__ import annotations

from typing import Any

import torch

from sglang_platform.conformance.reference import more_ops
from sglang_platform.core import FusedOp
from sglang_platform.core.ops.fused_op import MoEExperts, RMSNorm, RotaryEmbedding, SiluAndMul

__all__ = ["moe_experts", "register", "rms_norm", "rotary_embedding", "silu_and_mul"]


def register(dispatch_key: str) -> None:
    """Serve core's fused ops under this key."""
    FusedOp.register_oot_forward(RMSNorm, rms_norm, dispatch_key)
    FusedOp.register_oot_forward(SiluAndMul, silu_and_mul, dispatch_key)
    FusedOp.register_oot_forward(RotaryEmbedding, rotary_embedding, dispatch_key)
    FusedOp.register_oot_forward(MoEExperts, moe_experts, dispatch_key)
    more_ops.register(dispatch_key)


def rms_norm(
    op: Any,
    x: torch.Tensor,
    residual: torch.Tensor | None = None,
    post_residual_addition: torch.Tensor | None = None,
    quant_linear: Any = None,
) -> Any:
    if op.variance_size_override is not None or op.override_orig_dtype is not None or op.fp32_residual:
        return NotImplemented
    dtype = x.dtype
    y = x.float()
    if residual is not None:
        y = y + residual.float()
        if post_residual_addition is not None:
            y = y + post_residual_addition.float()
        residual = y.to(dtype)
    variance = y.pow(2).mean(dim=-1, keepdim=True)
    y = (y * torch.rsqrt(variance + op.variance_epsilon) * op.weight.float()).to(dtype)
    return y if residual is None else (y, residual)


def silu_and_mul(op: Any, x: torch.Tensor) -> torch.Tensor:
    gate, up = x.float().chunk(2, dim=-1)
    return (gate * torch.sigmoid(gate) * up).to(x.dtype)


def rotary_embedding(
    op: Any,
    positions: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    offsets: torch.Tensor | None = None,
    fused_set_kv_buffer_arg: Any = None,
) -> Any:
    if fused_set_kv_buffer_arg is not None:
        return NotImplemented
    positions = positions.flatten() if offsets is None else (positions + offsets).flatten()
    cos, sin = op.cos_sin_cache[positions].float().chunk(2, dim=-1)
    return _rotate(op, query, cos, sin), _rotate(op, key, cos, sin)


def _rotate(op: Any, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    heads = x.float().flatten(1).unflatten(1, (-1, op.head_size)).clone()
    rotated = heads[..., : op.rotary_dim]
    if op.is_neox_style:
        a, b = rotated.chunk(2, dim=-1)
    else:
        a, b = rotated[..., ::2], rotated[..., 1::2]
    cos, sin = cos[:, None, :], sin[:, None, :]
    a, b = a * cos - b * sin, b * cos + a * sin
    pairs = torch.cat((a, b), dim=-1) if op.is_neox_style else torch.stack((a, b), dim=-1).flatten(-2)
    heads[..., : op.rotary_dim] = pairs
    return heads.reshape(x.shape).to(x.dtype)


def moe_experts(
    op: Any,
    layer: Any,
    hidden_states: torch.Tensor,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    config: Any,
) -> Any:
    if config.activation != "silu" or not config.is_gated or op.with_bias or config.no_combine:
        return NotImplemented
    if any(
        limit is not None for limit in (config.gemm1_alpha, config.gemm1_clamp_limit, config.swiglu_limit)
    ):
        return NotImplemented
    out = torch.zeros(hidden_states.shape, dtype=torch.float32)
    for token, (weights, experts) in enumerate(zip(topk_weights.tolist(), topk_ids.tolist(), strict=True)):
        for weight, expert in zip(weights, experts, strict=True):
            if expert < 0:  # another rank's
                continue
            x = hidden_states[token].float()
            if config.apply_router_weight_on_input:
                x, weight = x * weight, 1.0
            gate, up = (layer.w13_weight[expert].float() @ x).chunk(2)
            out[token] += weight * (layer.w2_weight[expert].float() @ (gate * torch.sigmoid(gate) * up))
    return out.to(hidden_states.dtype)
