"""Fused ops: the work between the products that every decoder has, one kernel each. Those that only some models have
are in `more_ops.py`.

A vendor changes: which ops are registered, and the kernels behind them. A forward answers NotImplemented for a call
that its kernel does not know: then SGLang's own serves it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from sglang_platform.core import FusedOp
from sglang_platform.core.ops.fused_op import (
    MoEExperts,
    RMSNorm,
    RotaryEmbedding,
    SiluAndMul,
)

from sglang_platform.example_oot import biased_experts, kernels


def rms_norm(
    op: Any,
    x: torch.Tensor,
    residual: torch.Tensor | None = None,
    post_residual_addition: torch.Tensor | None = None,
    quant_linear: Any = None,
) -> Any:
    """Normalise, after adding the residual where there is one."""
    plain = (
        op.variance_size_override is None
        and op.override_orig_dtype is None
        and not op.fp32_residual
        and (not op.cast_x_before_out_mul or x.dtype == torch.float32)
    )
    return norm(op, x, residual, post_residual_addition, op.variance_epsilon) if plain else NotImplemented


def norm(
    op: Any,
    x: torch.Tensor,
    residual: torch.Tensor | None,
    addition: torch.Tensor | None,
    epsilon: float,
    shift: float = 0.0,
) -> Any:
    """RMS normalisation times `op.weight + shift`; with a residual both are written in place."""
    if x.dtype != op.weight.dtype or addition is not None:
        return NotImplemented
    if residual is None:
        return normalised(x, op.weight, epsilon, shift)
    if x.dim() != 2 or residual.dtype != x.dtype:
        return NotImplemented
    x = x.contiguous()
    kernels.fused_add_rms_norm(x, residual, op.weight, epsilon, shift)
    return x, residual


def normalised(
    x: torch.Tensor, weight: torch.Tensor | None, epsilon: float, shift: float = 0.0
) -> torch.Tensor:
    rows = x.reshape(-1, x.shape[-1]).contiguous()
    out = torch.empty_like(rows)
    kernels.rms_norm(rows, weight, epsilon, out, shift)
    return out.view(x.shape)


def silu_and_mul(op: Any, x: torch.Tensor) -> torch.Tensor:
    return activated(kernels.silu_and_mul, x, x.shape[-1] // 2)


def activated(kernel: Callable[..., None], x: torch.Tensor, width: int, *how: Any) -> torch.Tensor:
    rows = x.reshape(-1, x.shape[-1]).contiguous()
    out = x.new_empty((len(rows), width))
    kernel(rows, out, *how)
    return out.view(*x.shape[:-1], width)


def rotary_embedding(
    op: Any,
    positions: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    offsets: torch.Tensor | None = None,
    fused_set_kv_buffer_arg: Any = None,
) -> Any:
    """Rotate query [T, Hq * D] and key [T, Hk * D], or both by heads, in place."""
    if fused_set_kv_buffer_arg is not None:
        return NotImplemented
    positions = positions.flatten() if offsets is None else (positions + offsets).flatten()
    kernels.rotary_embedding(positions, query, key, op.head_size, op.cos_sin_cache, op.is_neox_style)
    return query, key


def moe_experts(
    op: Any,
    layer: Any,
    hidden_states: torch.Tensor,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    config: Any,
) -> Any:
    """SwiGLU experts; NotImplemented for any but those without bias and gpt-oss's.

    The routed scaling factor is left out as in the host's native experts: off CUDA its models apply it themselves.
    """
    if op.with_bias:
        return biased_experts.gpt_oss_experts(layer, hidden_states, topk_weights, topk_ids, config)
    plain = config.activation == "silu" and config.is_gated and not config.no_combine
    limits = (config.gemm1_alpha, config.gemm1_clamp_limit, config.swiglu_limit)
    if not plain or any(limit is not None for limit in limits):
        return NotImplemented
    out = torch.empty_like(hidden_states)
    kernels.moe_experts(
        hidden_states.contiguous(),
        layer.w13_weight,
        layer.w2_weight,
        topk_weights,
        topk_ids,
        out,
        bool(config.apply_router_weight_on_input),
    )
    return out


FORWARDS: dict[type[FusedOp], Callable[..., Any]] = {
    RMSNorm: rms_norm,
    SiluAndMul: silu_and_mul,
    RotaryEmbedding: rotary_embedding,
    MoEExperts: moe_experts,
}
