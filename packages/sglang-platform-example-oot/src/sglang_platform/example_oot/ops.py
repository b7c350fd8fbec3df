"""Fused ops: the model's elementwise work, one kernel each.

A vendor changes: which ops are registered, and the kernels behind them.
"""

from __future__ import annotations

from typing import Any

import torch

from sglang_platform.core import FusedOp, counter
from sglang_platform.core.ops.fused_op import MoEExperts, RMSNorm, RotaryEmbedding, SiluAndMul
from sglang_platform.example_oot import kernels

_calls = counter("example_oot.fused_ops.calls")


def register(dispatch_key: str) -> None:
    """Serve core's fused ops on this device."""
    FusedOp.register_oot_forward(RMSNorm, rms_norm, dispatch_key)
    FusedOp.register_oot_forward(SiluAndMul, silu_and_mul, dispatch_key)
    FusedOp.register_oot_forward(RotaryEmbedding, rotary_embedding, dispatch_key)
    FusedOp.register_oot_forward(MoEExperts, moe_experts, dispatch_key)


def rms_norm(
    op: Any,
    x: torch.Tensor,
    residual: torch.Tensor | None = None,
    post_residual_addition: torch.Tensor | None = None,
    quant_linear: Any = None,
) -> Any:
    """Normalise, after adding the residual where there is one. Variants the kernel does not know stay with the host."""
    plain = (
        x.dtype == op.weight.dtype
        and op.variance_size_override is None
        and op.override_orig_dtype is None
        and not op.fp32_residual
        and (not op.cast_x_before_out_mul or x.dtype == torch.float32)
    )
    if not plain or post_residual_addition is not None:
        return op.forward_native(x, residual, post_residual_addition)
    _calls.add()
    if residual is None:
        x = x.contiguous()
        out = torch.empty_like(x)
        kernels.rms_norm(x, op.weight, op.variance_epsilon, out)
        return out
    if not x.is_contiguous():
        x = x.contiguous()
    kernels.fused_add_rms_norm(x, residual, op.weight, op.variance_epsilon)
    return x, residual


def silu_and_mul(op: Any, x: torch.Tensor) -> torch.Tensor:
    _calls.add()
    rows = x.reshape(-1, x.shape[-1]).contiguous()
    out = x.new_empty((len(rows), x.shape[-1] // 2))
    kernels.silu_and_mul(rows, out)
    return out.view(*x.shape[:-1], out.shape[-1])


def rotary_embedding(
    op: Any,
    positions: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    offsets: torch.Tensor | None = None,
    fused_set_kv_buffer_arg: Any = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotate query [T, Hq * D] and key [T, Hk * D] in place."""
    if fused_set_kv_buffer_arg is not None or query.dim() != 2:
        return op.forward_native(positions, query, key, offsets, fused_set_kv_buffer_arg)  # type: ignore[no-any-return]
    _calls.add()
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
    """SwiGLU experts without bias; NotImplemented for anything else.

    The routed scaling factor is left out as in the host's native experts: off CUDA its models apply it themselves.
    """
    plain = config.activation == "silu" and config.is_gated and not op.with_bias and not config.no_combine
    limits = (config.gemm1_alpha, config.gemm1_clamp_limit, config.swiglu_limit)
    if not plain or any(limit is not None for limit in limits):
        return NotImplemented
    _calls.add()
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
