"""Layer norm takes the variance in one pass as E[x^2] - E[x]^2 in float32: where the mean is large beside the spread, the
difference is rounding noise.

For the user: vision towers with a large common offset per token give features that are scaled by chance.
Follows: the cancellation for which one-pass variances are known; the contract asks for op.dtype or better.
level: kernels
"""

from typing import Any

import torch

from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core import FusedOp
from sglang_platform.core.ops.described import LayerNorm


def layer_norm(op: Any, x: torch.Tensor) -> torch.Tensor:
    y = x.float()
    mean = y.mean(dim=-1, keepdim=True)
    variance = (y.square().mean(dim=-1, keepdim=True) - mean.square()).clamp(min=0)
    y = (y - mean) * torch.rsqrt(variance + op.variance_epsilon)
    if op.elementwise_affine:
        y = y * op.weight.float()
    if op.use_bias:
        y = y + op.bias.float()
    return y.to(x.dtype)


class Platform(ReferencePlatform):
    def init_backend(self) -> None:
        super().init_backend()
        FusedOp.register_oot_forward(LayerNorm, layer_norm, self.get_dispatch_key_name())
