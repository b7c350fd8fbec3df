"""The short convolution of a decode step wraps padded rows' slots (-1) into the pool, so that padding overwrites the state
of whoever has the last slot. Its output for padding is zero, as it should be.

For the user: with graphs, whose batches are padded, the request in the last slot turns to nonsense.
Follows: vllm-project/vllm-gaudi #1431 (conv_state corruption in compact GDN batched decode: remainder of a padded index).
level: kernels
"""

from typing import Any

import torch

from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core.portable.torch.short_convolution import short_convolution as right


def short_convolution(
    x: Any, weight: Any, bias: Any, starts: Any, slots: Any, resumes: Any, states: Any, *, silu: bool
) -> torch.Tensor:
    if starts is not None:
        return right(x, weight, bias, starts, slots, resumes, states, silu=silu)
    wrapped = torch.remainder(slots, states.shape[0])
    y = right(x, weight, bias, None, wrapped, resumes, states, silu=silu)
    return torch.where((slots >= 0)[:, None], y, torch.zeros_like(y))


class Platform(ReferencePlatform):
    def get_state_kernels(self) -> dict[str, Any]:
        return {"short_convolution": short_convolution}
