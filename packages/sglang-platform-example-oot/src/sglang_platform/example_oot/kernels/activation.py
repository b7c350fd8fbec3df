"""SwiGLU's gate: schema, and the plain torch implementation.

A vendor keeps this: the schema is what the parts call, the function what a kernel is checked against.
"""

from __future__ import annotations

import torch

__all__ = ["SCHEMAS", "silu_and_mul"]

SCHEMAS = {"silu_and_mul": "(Tensor x, Tensor(a!) out) -> ()"}


def silu_and_mul(x: torch.Tensor, out: torch.Tensor) -> None:
    """`out = silu(x[:, :I]) * x[:, I:]` for `x` [T, 2 I] and `out` [T, I] of one type. Float32 inside, one rounding."""
    gate, up = x.float().chunk(2, dim=-1)
    out.copy_(torch.nn.functional.silu(gate) * up)
