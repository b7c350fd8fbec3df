"""The compiled gelu is kept by width and type only: a second op of another approximation gets the first one's kernel.

For the user: what a layer computes depends on which model's layer ran first in the process (a vision tower with
approximate="tanh" beside a text model with "none"); the first op ever called is always right.
Follows: caches of jitted kernels whose key lacks a constant.
level: kernels
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import gelu

from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core import FusedOp
from sglang_platform.core.ops.described import GeluAndMul

_compiled: dict[Any, Callable[[torch.Tensor], torch.Tensor]] = {}


def _compile(approximate: str) -> Callable[[torch.Tensor], torch.Tensor]:
    def kernel(x: torch.Tensor) -> torch.Tensor:
        gate, up = x.float().chunk(2, dim=-1)
        return (gelu(gate, approximate=approximate) * up).to(x.dtype)

    return kernel


def gelu_and_mul(op: Any, x: torch.Tensor) -> torch.Tensor:
    key = (x.shape[-1], x.dtype)
    if key not in _compiled:
        _compiled[key] = _compile(op.approximate)
    return _compiled[key](x)


class Platform(ReferencePlatform):
    def init_backend(self) -> None:
        super().init_backend()
        FusedOp.register_oot_forward(GeluAndMul, gelu_and_mul, self.get_dispatch_key_name())
