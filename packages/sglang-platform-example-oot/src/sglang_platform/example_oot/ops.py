"""Fused ops: the model's elementwise work, one kernel each.

A vendor changes: which ops are registered, and the kernels behind them. A forward answers NotImplemented for a call that
its kernel does not know: then SGLang's own serves it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial, wraps
from typing import Any

import torch

from sglang_platform.core import FusedOp, counter
from sglang_platform.core.ops import described
from sglang_platform.core.ops.fused_op import MoEExperts, RMSNorm, RotaryEmbedding, SiluAndMul
from sglang_platform.example_oot import kernels

_calls = counter("example_oot.fused_ops.calls")


def register(dispatch_key: str) -> None:
    """Serve SGLang's fused ops on this device."""
    for op, forward in FORWARDS.items():
        FusedOp.register_oot_forward(op, _counted(op.class_name(), forward), dispatch_key)


def _counted(name: str, forward: Callable[..., Any]) -> Callable[..., Any]:
    """`forward`, with a count of the calls that it serves: the proof that an op ran here."""
    served = counter(f"example_oot.fused_ops.{name}")

    @wraps(forward)
    def counted(op: Any, *args: Any, **kwargs: Any) -> Any:
        answer = forward(op, *args, **kwargs)
        if answer is not NotImplemented:
            _calls.add()
            served.add()
        return answer

    return counted


# Norms


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
    return _norm(op, x, residual, post_residual_addition, op.variance_epsilon) if plain else NotImplemented


def gemma_rms_norm(
    op: Any,
    x: torch.Tensor,
    residual: torch.Tensor | None = None,
    post_residual_addition: torch.Tensor | None = None,
) -> Any:
    return _norm(op, x, residual, post_residual_addition, op.variance_epsilon, shift=1.0)


def gemma3_rms_norm(op: Any, x: torch.Tensor, residual: torch.Tensor | None = None) -> Any:
    return _norm(op, x, residual, None, op.eps, shift=1.0)


def gemma4_rms_norm(op: Any, x: torch.Tensor) -> Any:
    if not op.with_scale:
        return _normalised(x, None, op.eps)
    return _norm(op, x, None, None, op.eps, shift=op.scale_shift)


def rms_norm_without_scale(op: Any, x: torch.Tensor) -> torch.Tensor:
    return _normalised(x, None, op.eps)


def mixer2_rms_norm_gated(op: Any, x: torch.Tensor, gate: torch.Tensor) -> Any:
    """The mean of each group, where no other rank holds columns of it."""
    if not op.use_rms_norm or op.n_groups % op.tp_size:
        return NotImplemented
    gated = x.float() * torch.nn.functional.silu(gate.float())
    groups = gated.view(-1, gated.shape[-1] // op.group_size, op.group_size)
    return (_normalised(groups, None, op.variance_epsilon).view(x.shape) * op.weight).to(x.dtype)


def layer_norm(op: Any, x: torch.Tensor) -> Any:
    weight = op.weight if op.elementwise_affine else None
    bias = op.bias if op.use_bias else None
    if any(one is not None and one.dtype not in (x.dtype, torch.float32) for one in (weight, bias)):
        return NotImplemented
    rows = x.reshape(-1, x.shape[-1])
    out = torch.empty_like(rows)
    kernels.layer_norm(rows, weight, bias, op.variance_epsilon, out)
    return out.view(x.shape)


def _norm(
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
        return _normalised(x, op.weight, epsilon, shift)
    if x.dim() != 2 or residual.dtype != x.dtype:
        return NotImplemented
    x = x.contiguous()
    kernels.fused_add_rms_norm(x, residual, op.weight, epsilon, shift)
    return x, residual


def _normalised(
    x: torch.Tensor, weight: torch.Tensor | None, epsilon: float, shift: float = 0.0
) -> torch.Tensor:
    rows = x.reshape(-1, x.shape[-1]).contiguous()
    out = torch.empty_like(rows)
    kernels.rms_norm(rows, weight, epsilon, out, shift)
    return out.view(x.shape)


# Activations


def silu_and_mul(op: Any, x: torch.Tensor) -> torch.Tensor:
    return _activated(kernels.silu_and_mul, x, x.shape[-1] // 2)


def gelu_and_mul(op: Any, x: torch.Tensor) -> torch.Tensor:
    return _activated(kernels.gelu_and_mul, x, x.shape[-1] // 2, op.approximate == "tanh")


def _plain(name: str, op: Any, x: torch.Tensor) -> torch.Tensor:
    return _activated(kernels.activation, x, x.shape[-1], name)


def _activated(kernel: Callable[..., None], x: torch.Tensor, width: int, *how: Any) -> torch.Tensor:
    rows = x.reshape(-1, x.shape[-1]).contiguous()
    out = x.new_empty((len(rows), width))
    kernel(rows, out, *how)
    return out.view(*x.shape[:-1], width)


# Rotary embeddings


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


def mrope(
    op: Any,
    positions: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    fused_set_kv_buffer_arg: Any = None,
) -> Any:
    """The rotation by a table of this step's tokens, each pair of columns from the row of its axis' position."""
    if positions.dim() == 1:
        return rotary_embedding(op, positions, query, key, None, fused_set_kv_buffer_arg)
    if fused_set_kv_buffer_arg is not None or getattr(op, "mrope_interleaved_glm", False):
        return NotImplemented
    axes = torch.tensor(_axis_of_pair(tuple(op.mrope_section), bool(op.mrope_interleaved)) * 2)
    rows = op.cos_sin_cache[positions]  # [3, T, cosines and sines]
    columns = torch.arange(rows.shape[-1])
    table = rows[axes.to(rows.device), :, columns.to(rows.device)].T.contiguous()
    tokens = torch.arange(len(table), device=positions.device)
    kernels.rotary_embedding(tokens, query, key, op.head_size, table, op.is_neox_style)
    return query, key


@cache
def _axis_of_pair(section: tuple[int, ...], interleaved: bool) -> tuple[int, ...]:
    if not interleaved:
        return tuple(axis for axis, pairs in enumerate(section) for _ in range(pairs))
    return tuple(pair % 3 if pair < 3 * section[pair % 3] else 0 for pair in range(sum(section)))


# Mixtures of experts


def topk(op: Any, hidden_states: torch.Tensor, router_logits: torch.Tensor, config: Any) -> Any:
    """The experts with the largest softmax; NotImplemented for other scores, groups and biases."""
    if config.scoring_func not in (None, "softmax") or config.use_grouped_topk:
        return NotImplemented
    if config.correction_bias is not None or config.custom_routing_function is not None:
        return NotImplemented
    weights, ids = torch.softmax(router_logits.float(), dim=-1).topk(config.top_k, dim=-1)
    if config.renormalize:
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights, ids.to(torch.int32)


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
    described.GemmaRMSNorm: gemma_rms_norm,
    described.Gemma3RMSNorm: gemma3_rms_norm,
    described.Gemma4RMSNorm: gemma4_rms_norm,
    described.RMSNormWithoutScale: rms_norm_without_scale,
    described.Mixer2RMSNormGated: mixer2_rms_norm_gated,
    described.LayerNorm: layer_norm,
    SiluAndMul: silu_and_mul,
    described.GeluAndMul: gelu_and_mul,
    described.NewGELU: partial(_plain, "gelu_tanh"),
    described.QuickGELU: partial(_plain, "quick_gelu"),
    described.ReLU2: partial(_plain, "relu2"),
    RotaryEmbedding: rotary_embedding,
    described.MRotaryEmbedding: mrope,
    described.DeepseekScalingRotaryEmbedding: rotary_embedding,
    described.TopK: topk,
    MoEExperts: moe_experts,
}
