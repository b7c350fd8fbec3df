"""Fused ops that only some text models have: Gemma's norms, layer norms, other activations, rotary embeddings of three
axes, the choice of experts.

A vendor changes: which of them are registered. What is left out SGLang's plain torch serves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from sglang_platform.core import FusedOp
from sglang_platform.core.ops import described

from sglang_platform.example_oot import kernels
from sglang_platform.example_oot.ops import activated, norm, normalised, rotary_embedding


def gemma_rms_norm(
    op: Any,
    x: torch.Tensor,
    residual: torch.Tensor | None = None,
    post_residual_addition: torch.Tensor | None = None,
) -> Any:
    return norm(op, x, residual, post_residual_addition, op.variance_epsilon, shift=1.0)


def gemma3_rms_norm(op: Any, x: torch.Tensor, residual: torch.Tensor | None = None) -> Any:
    return norm(op, x, residual, None, op.eps, shift=1.0)


def gemma4_rms_norm(op: Any, x: torch.Tensor) -> Any:
    if not op.with_scale:
        return normalised(x, None, op.eps)
    return norm(op, x, None, None, op.eps, shift=op.scale_shift)


def rms_norm_without_scale(op: Any, x: torch.Tensor) -> torch.Tensor:
    return normalised(x, None, op.eps)


def mixer2_rms_norm_gated(op: Any, x: torch.Tensor, gate: torch.Tensor) -> Any:
    """The mean of each group, where no other rank holds columns of it."""
    if not op.use_rms_norm or op.n_groups % op.tp_size:
        return NotImplemented
    gated = x.float() * torch.nn.functional.silu(gate.float())
    groups = gated.view(-1, gated.shape[-1] // op.group_size, op.group_size)
    return (normalised(groups, None, op.variance_epsilon).view(x.shape) * op.weight).to(x.dtype)


def layer_norm(op: Any, x: torch.Tensor) -> Any:
    weight = op.weight if op.elementwise_affine else None
    bias = op.bias if op.use_bias else None
    if any(one is not None and one.dtype not in (x.dtype, torch.float32) for one in (weight, bias)):
        return NotImplemented
    rows = x.reshape(-1, x.shape[-1]).contiguous()
    out = torch.empty_like(rows)
    kernels.layer_norm(rows, weight, bias, op.variance_epsilon, out)
    return out.view(x.shape)


def gelu_and_mul(op: Any, x: torch.Tensor) -> torch.Tensor:
    return activated(kernels.gelu_and_mul, x, x.shape[-1] // 2, op.approximate == "tanh")


def _plain(name: str, op: Any, x: torch.Tensor) -> torch.Tensor:
    return activated(kernels.activation, x, x.shape[-1], name)


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


FORWARDS: dict[type[FusedOp], Callable[..., Any]] = {
    described.GemmaRMSNorm: gemma_rms_norm,
    described.Gemma3RMSNorm: gemma3_rms_norm,
    described.Gemma4RMSNorm: gemma4_rms_norm,
    described.RMSNormWithoutScale: rms_norm_without_scale,
    described.Mixer2RMSNormGated: mixer2_rms_norm_gated,
    described.LayerNorm: layer_norm,
    described.GeluAndMul: gelu_and_mul,
    described.NewGELU: partial(_plain, "gelu_tanh"),
    described.QuickGELU: partial(_plain, "quick_gelu"),
    described.ReLU2: partial(_plain, "relu2"),
    described.MRotaryEmbedding: mrope,
    described.DeepseekScalingRotaryEmbedding: rotary_embedding,
    described.TopK: topk,
}
