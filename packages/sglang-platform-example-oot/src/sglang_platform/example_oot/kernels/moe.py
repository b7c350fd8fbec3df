"""Mixture-of-experts feed-forward, unquantised: schema, and the plain torch implementation.

A vendor keeps this: the schema is what the parts call, the function what a kernel is checked against.
"""

from __future__ import annotations

import torch

__all__ = ["SCHEMAS", "moe_experts"]

SCHEMAS = {
    "moe_experts": (
        "(Tensor x, Tensor w13, Tensor w2, Tensor topk_weights, Tensor topk_ids, Tensor(a!) out, "
        "bool apply_weight_on_input=False) -> ()"
    )
}


def moe_experts(
    x: torch.Tensor,
    w13: torch.Tensor,
    w2: torch.Tensor,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    out: torch.Tensor,
    apply_weight_on_input: bool = False,
) -> None:
    """SwiGLU experts: `out_t = sum_k weight_tk * w2[e] @ (silu(w13[e, :I] @ x_t) * (w13[e, I:] @ x_t))`, e = id_tk.

    `x` and `out` [T, H], `w13` [E, 2 I, H] (gate rows, then up rows), `w2` [E, H, I], of one type; `topk_weights` and
    `topk_ids` [T, K]. An id outside [0, E), as expert parallelism gives for experts of other ranks, adds nothing.
    With `apply_weight_on_input` the weight scales x_t instead of the expert's output.
    """
    weights, ids = topk_weights.float(), topk_ids.long()
    total = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
    for expert in torch.unique(ids).tolist():
        if not 0 <= expert < w13.shape[0]:
            continue
        token, k = torch.where(ids == expert)
        weight = weights[token, k, None]
        chosen = x[token]
        if apply_weight_on_input:
            chosen = (chosen * weight).to(x.dtype)
        gate, up = torch.nn.functional.linear(chosen, w13[expert]).float().chunk(2, dim=-1)
        hidden = (torch.nn.functional.silu(gate) * up).to(x.dtype)
        y = torch.nn.functional.linear(hidden, w2[expert]).float()
        total.index_add_(0, token, y if apply_weight_on_input else y * weight)
    out.copy_(total)
