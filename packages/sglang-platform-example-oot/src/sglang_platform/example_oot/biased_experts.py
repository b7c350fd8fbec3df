"""Experts with biases and a clamped SwiGLU (gpt-oss), built from the device's operators without a fused kernel.

Nothing here reads the chosen ids on the host, so that a graph can be captured. A vendor replaces all of it by a kernel.
"""

from __future__ import annotations

from typing import Any

import torch


def gpt_oss_experts(
    layer: Any, x: torch.Tensor, topk_weights: torch.Tensor, topk_ids: torch.Tensor, config: Any
) -> Any:
    """`biased_experts` with the host's configuration; NotImplemented for experts other than gpt-oss's."""
    limits = (config.gemm1_alpha, config.gemm1_clamp_limit)
    others = (config.swiglu_limit is not None, config.no_combine, config.apply_router_weight_on_input)
    if config.activation != "silu" or not config.is_gated or None in limits or any(others):
        return NotImplemented
    return biased_experts(layer, x, topk_weights, topk_ids, *limits)


def biased_experts(
    layer: Any,
    x: torch.Tensor,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    alpha: float,
    limit: float,
) -> torch.Tensor:
    """`out_t = sum_k weight_tk * (w2[e] @ swiglu(w13[e] @ x_t + b13[e]) + b2[e])`, e = id_tk; x and out [T, H].

    `layer` has `w13_weight` [E, 2 I, H], gate and up in turn, `w2_weight` [E, H, I] and their biases
    `w13_weight_bias` [E, 2 I], `w2_weight_bias` [E, H]. `topk_weights` and `topk_ids` [T, K]; an id of another rank's
    expert, outside [0, E), adds nothing. swiglu is `g sigmoid(alpha g) (u + 1)`, g at most `limit`, u within it.

    For few rows the weights of their experts are gathered; for many, all rows go through every expert, with weight 0
    for experts that are not theirs.
    """
    experts, ids = len(layer.w13_weight), topk_ids.long()
    here = (ids >= 0) & (ids < experts)
    weights = torch.where(here, topk_weights.float(), 0.0)
    ids = torch.where(here, ids, 0)
    total = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
    if ids.numel() <= experts:
        for k in range(ids.shape[1]):
            chosen = ids[:, k]
            inner = torch.bmm(layer.w13_weight[chosen], x[:, :, None])[:, :, 0].float()
            hidden = _swiglu(inner + layer.w13_weight_bias[chosen], alpha, limit).to(x.dtype)
            y = torch.bmm(layer.w2_weight[chosen], hidden[:, :, None])[:, :, 0].float()
            total += weights[:, k, None] * (y + layer.w2_weight_bias[chosen])
        return total.to(x.dtype)
    for expert in range(experts):
        weight = torch.where(ids == expert, weights, 0.0).sum(1, keepdim=True)
        inner = torch.nn.functional.linear(x, layer.w13_weight[expert]).float()
        hidden = _swiglu(inner + layer.w13_weight_bias[expert], alpha, limit).to(x.dtype)
        y = torch.nn.functional.linear(hidden, layer.w2_weight[expert]).float()
        total += weight * (y + layer.w2_weight_bias[expert])
    return total.to(x.dtype)


def _swiglu(x: torch.Tensor, alpha: float, limit: float) -> torch.Tensor:
    gate, up = x[..., ::2].clamp(max=limit), x[..., 1::2].clamp(-limit, limit)
    return gate * torch.sigmoid(alpha * gate) * (up + 1)
