"""silu is computed as gate * e^gate / (1 + e^gate), which is inf / inf for a gate above 88: one NaN per outlier.

For the user: most prompts are answered; a few with a massive activation end in NaN logits and a stopped request.
Follows: the common overflow of a hand-written sigmoid.
level: kernels
"""

from typing import Any

import torch

from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core import FusedOp
from sglang_platform.core.ops.fused_op import SiluAndMul


def silu_and_mul(op: Any, x: torch.Tensor) -> torch.Tensor:
    gate, up = x.float().chunk(2, dim=-1)
    grown = gate.exp()
    return (gate * (grown / (1 + grown)) * up).to(x.dtype)


class Platform(ReferencePlatform):
    def init_backend(self) -> None:
        super().init_backend()
        FusedOp.register_oot_forward(SiluAndMul, silu_and_mul, self.get_dispatch_key_name())
