"""Activations, plain and with a gate: schemas, and the plain torch implementations.

A vendor keeps this: the schema is what the parts call, the function what a kernel is checked against. All compute in
float32 and round once; `x` and `out` are of one type.
"""

from __future__ import annotations

import torch
from torch.nn import functional

__all__ = ["SCHEMAS", "activation", "gelu_and_mul", "silu_and_mul"]

SCHEMAS = {
    "silu_and_mul": "(Tensor x, Tensor(a!) out) -> ()",
    "gelu_and_mul": "(Tensor x, Tensor(a!) out, bool tanh) -> ()",
    "activation": "(Tensor x, Tensor(a!) out, str name) -> ()",
}


def silu_and_mul(x: torch.Tensor, out: torch.Tensor) -> None:
    """`out = silu(x[:, :I]) * x[:, I:]` for `x` [T, 2 I] and `out` [T, I]."""
    gate, up = x.float().chunk(2, dim=-1)
    out.copy_(functional.silu(gate) * up)


def gelu_and_mul(x: torch.Tensor, out: torch.Tensor, tanh: bool) -> None:
    """`out = gelu(x[:, :I]) * x[:, I:]`, gelu exactly or in its tanh form."""
    gate, up = x.float().chunk(2, dim=-1)
    out.copy_(functional.gelu(gate, approximate="tanh" if tanh else "none") * up)


def activation(x: torch.Tensor, out: torch.Tensor, name: str) -> None:
    """`out = f(x)`, both [T, I]; f is `gelu_tanh`, `quick_gelu`, x sigmoid(1.702 x), or `relu2`, max(0, x)^2.

    Raises RuntimeError for another name."""
    y = x.float()
    if name == "gelu_tanh":
        out.copy_(functional.gelu(y, approximate="tanh"))
    elif name == "quick_gelu":
        out.copy_(y * torch.sigmoid(1.702 * y))
    elif name == "relu2":
        out.copy_(functional.relu(y).square())
    else:
        raise RuntimeError(f"no activation is called {name}")
