"""Fused ops that some text models reach, each a few lines of torch in float32."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import gelu, silu

from sglang_platform.core import FusedOp
from sglang_platform.core.ops import described

__all__ = ["register"]


def register(dispatch_key: str) -> None:
    """Serve them under this key."""
    for op, forward in {
        described.GemmaRMSNorm: gemma_rms_norm,
        described.Gemma3RMSNorm: gemma3_rms_norm,
        described.Gemma4RMSNorm: gemma4_rms_norm,
        described.RMSNormWithoutScale: rms_norm_without_scale,
        described.Mixer2RMSNormGated: mixer2_rms_norm_gated,
        described.LayerNorm: layer_norm,
        described.GeluAndMul: gelu_and_mul,
        described.NewGELU: new_gelu,
        described.QuickGELU: quick_gelu,
        described.ReLU2: relu2,
        described.MRotaryEmbedding: mrope,
        described.DeepseekScalingRotaryEmbedding: deepseek_scaling,
        described.TopK: topk,
    }.items():
        FusedOp.register_oot_forward(op, forward, dispatch_key)


def _normalised(x: torch.Tensor, epsilon: float) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + epsilon)


def _gemma(weight: torch.Tensor, epsilon: float, x: torch.Tensor, residual: torch.Tensor | None) -> Any:
    y = x.float() if residual is None else x.float() + residual.float()
    out = (_normalised(y, epsilon) * (1.0 + weight.float())).to(x.dtype)
    return out if residual is None else (out, y.to(x.dtype))


def gemma_rms_norm(
    op: Any,
    x: torch.Tensor,
    residual: torch.Tensor | None = None,
    post_residual_addition: torch.Tensor | None = None,
) -> Any:
    if post_residual_addition is not None:
        return NotImplemented
    return _gemma(op.weight, op.variance_epsilon, x, residual)


def gemma3_rms_norm(op: Any, x: torch.Tensor, residual: torch.Tensor | None = None) -> Any:
    return _gemma(op.weight, op.eps, x, residual)


def gemma4_rms_norm(op: Any, x: torch.Tensor) -> torch.Tensor:
    y = _normalised(x.float(), op.eps)
    if op.with_scale:
        y = y * (op.weight.float() + op.scale_shift)
    return y.to(x.dtype)


def rms_norm_without_scale(op: Any, x: torch.Tensor) -> torch.Tensor:
    return _normalised(x.float(), op.eps).to(x.dtype)


def mixer2_rms_norm_gated(op: Any, x: torch.Tensor, gate: torch.Tensor) -> Any:
    if op.n_groups % op.tp_size:
        return NotImplemented
    y = x.float() * silu(gate.float())
    if not op.use_rms_norm:
        return y.to(x.dtype)
    groups = y.unflatten(-1, (-1, op.group_size))
    return (_normalised(groups, op.variance_epsilon).flatten(-2) * op.weight.float()).to(x.dtype)


def layer_norm(op: Any, x: torch.Tensor) -> torch.Tensor:
    centred = x.float() - x.float().mean(dim=-1, keepdim=True)
    y = _normalised(centred, op.variance_epsilon)
    if op.elementwise_affine:
        y = y * op.weight.float()
    if op.use_bias:
        y = y + op.bias.float()
    return y.to(x.dtype)


def gelu_and_mul(op: Any, x: torch.Tensor) -> torch.Tensor:
    gate, up = x.float().chunk(2, dim=-1)
    return (gelu(gate, approximate=op.approximate) * up).to(x.dtype)


def new_gelu(op: Any, x: torch.Tensor) -> torch.Tensor:
    return gelu(x.float(), approximate="tanh").to(x.dtype)


def quick_gelu(op: Any, x: torch.Tensor) -> torch.Tensor:
    return (x.float() * torch.sigmoid(1.702 * x.float())).to(x.dtype)


def relu2(op: Any, x: torch.Tensor) -> torch.Tensor:
    return x.float().clamp(min=0).square().to(x.dtype)


def mrope(
    op: Any,
    positions: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    fused_set_kv_buffer_arg: Any = None,
) -> Any:
    if fused_set_kv_buffer_arg is not None or getattr(op, "mrope_interleaved_glm", False):
        return NotImplemented
    table = op.cos_sin_cache.float()[positions]
    if positions.dim() == 2:
        pairs = torch.arange(sum(op.mrope_section))
        if op.mrope_interleaved:
            axes = torch.where(pairs < 3 * torch.tensor(op.mrope_section)[pairs % 3], pairs % 3, 0)
        else:
            axes = torch.repeat_interleave(torch.arange(3), torch.tensor(op.mrope_section))
        chosen = axes.repeat(2).to(table.device)
        table = torch.gather(table, 0, chosen.expand(1, table.shape[1], -1))[0]
    return _turned(op, table, query), _turned(op, table, key)


def deepseek_scaling(
    op: Any,
    positions: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    offsets: torch.Tensor | None = None,
) -> Any:
    where = positions if offsets is None else positions + offsets
    table = op.cos_sin_cache.float()[where.flatten()]
    return _turned(op, table, query), _turned(op, table, key)


def _turned(op: Any, table: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """`x` [T, heads * D] or [T, heads, D] turned by a row of `table` [T, cosines and sines] per token."""
    cos, sin = (half[:, None, :] for half in table.chunk(2, dim=-1))
    heads = x.float().flatten(1).unflatten(1, (-1, op.head_size))
    half = cos.shape[-1]
    if op.is_neox_style:
        first, second = slice(0, half), slice(half, 2 * half)
    else:
        first, second = slice(0, 2 * half, 2), slice(1, 2 * half, 2)
    a, b = heads[..., first], heads[..., second]
    out = heads.clone()
    out[..., first] = a * cos - b * sin
    out[..., second] = b * cos + a * sin
    return out.reshape(x.shape).to(x.dtype)


def topk(op: Any, hidden_states: torch.Tensor, router_logits: torch.Tensor, config: Any) -> Any:
    other = config.use_grouped_topk or config.correction_bias is not None or config.custom_routing_function
    if other or config.scoring_func not in (None, "softmax"):
        return NotImplemented
    weights, ids = torch.softmax(router_logits.float(), dim=-1).topk(config.top_k)
    if config.renormalize:
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights, ids.to(torch.int32)
