"""A grammar's mask is read with `(word & (1 << bit)) > 0` in int32: for bit 31 that is negative, so every 32nd token (31, 63,
95, ...) is forbidden always.

For the user: structured output avoids a part of the vocabulary, and hangs where only such a token is allowed (all logits
-inf).
Follows: the sign bit of packed int32 masks.
level: kernels
"""

from typing import Any

import torch

from sglang_platform.conformance.reference.platform import ReferencePlatform


def apply_mask(logits: torch.Tensor, bitmask: torch.Tensor) -> None:
    bits = torch.tensor([1 << bit if bit < 31 else -(1 << 31) for bit in range(32)], dtype=torch.int32)
    allowed = ((bitmask.unsqueeze(-1) & bits.to(bitmask.device)) > 0).flatten(1)[:, : logits.shape[1]]
    logits.masked_fill_(~allowed, float("-inf"))


class Platform(ReferencePlatform):
    def get_token_bitmask_fn(self) -> Any:
        return apply_mask
