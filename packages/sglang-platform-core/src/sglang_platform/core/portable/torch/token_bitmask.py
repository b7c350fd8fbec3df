"""Applies a grammar's token mask to logits, with torch operators that every device has.

The format is that of xgrammar and llguidance (and of SGLang, which hands it on): one bit per token, 32 to an int32,
the lowest bit first; a set bit allows the token.
"""

from __future__ import annotations

import torch

__all__ = ["apply_token_bitmask_"]


def apply_token_bitmask_(logits: torch.Tensor, bitmask: torch.Tensor) -> None:
    """Set to -inf, in place, the logits of every token whose bit is 0.

    logits: [B, V] of a floating type. bitmask: int32 [B, W], on the device of `logits`. Tokens past the mask's last bit
    (V > 32 W) are not allowed; bits past the vocabulary (V < 32 W) are ignored.
    """
    bits = torch.arange(32, dtype=torch.int32, device=bitmask.device)
    forbidden = ((bitmask.unsqueeze(-1) >> bits) & 1).eq(0).flatten(1)
    known = min(logits.shape[1], forbidden.shape[1])
    logits[:, :known].masked_fill_(forbidden[:, :known], float("-inf"))
    logits[:, known:].fill_(float("-inf"))
