"""Linear layers: schema, and the plain torch implementation.

A vendor keeps this: the schema is what the parts call, the function what a kernel is checked against.
"""

from __future__ import annotations

import torch

__all__ = ["SCHEMAS", "linear"]

SCHEMAS = {"linear": "(Tensor x, Tensor weight, Tensor? bias, Tensor(a!) out) -> ()"}


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, out: torch.Tensor) -> None:
    """`out = x weight^T + bias`, `x` [M, K], `weight` [N, K], `bias` [N], `out` [M, N], all of one type.

    Sums in float32, one rounding. For the few rows of a decode step; torch's own product is for many.
    """
    out.copy_(torch.nn.functional.linear(x.float(), weight.float(), None if bias is None else bias.float()))
