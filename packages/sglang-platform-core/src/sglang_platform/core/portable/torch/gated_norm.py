"""Root mean square norm with a gate, in plain torch."""

from __future__ import annotations

import torch

__all__ = ["gated_rms_norm"]

_GATES = {
    "silu": torch.nn.functional.silu,
    "swish": torch.nn.functional.silu,
    "sigmoid": torch.sigmoid,
}


def gated_rms_norm(
    x: torch.Tensor,
    gate: torch.Tensor | None,
    weight: torch.Tensor | None,
    *,
    epsilon: float,
    activation: str,
    group_size: int | None,
    gate_first: bool,
) -> torch.Tensor:
    """`norm(x) * weight * act(gate)`, or the norm of `x * act(gate)`. See `contract.state_kernels`."""
    wide = torch.promote_types(x.dtype, torch.float32)
    y = x.to(wide)
    opened = None if gate is None else _GATES[activation](gate.to(wide))
    if opened is not None and gate_first:
        y = y * opened
    groups = y.unflatten(-1, (-1, group_size or y.shape[-1]))
    normed = groups * torch.rsqrt(groups.square().mean(-1, keepdim=True) + epsilon)
    y = normed.flatten(-2)
    if weight is not None:
        y = y * weight.to(wide)
    if opened is not None and not gate_first:
        y = y * opened
    return y.to(x.dtype)
