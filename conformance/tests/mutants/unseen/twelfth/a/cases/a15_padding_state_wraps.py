"""The short convolution of state layers (LFM2, Mamba, gated delta nets) indexes the pool of states by the slots of the
batch as they are. The slot of a padded row is -1, which torch takes for the last one: each replay of a padded graph shifts
the last request's state by a token of padding. Unpadded batches and pools whose last slot is free are right.
follows: vllm-project/vllm#43810 (PADDING_SLOT_ID=-1 writes the last slot), lightseekorg/tokenspeed#700
level: kernels
"""

from __future__ import annotations

import torch

from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core.portable.torch.short_convolution import short_convolution


def wrapping_convolution(x, weight, bias, starts, slots, resumes, states, *, silu):
    if starts is not None:
        return short_convolution(x, weight, bias, starts, slots, resumes, states, silu=silu)
    indexed = torch.where(slots < 0, slots + states.shape[0], slots)
    out = short_convolution(x, weight, bias, None, indexed, resumes, states, silu=silu)
    return torch.where((slots >= 0)[:, None], out, torch.zeros_like(out))


class Platform(ReferencePlatform):
    def get_state_kernels(self):
        return {"short_convolution": wrapping_convolution}
