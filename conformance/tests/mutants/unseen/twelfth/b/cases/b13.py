"""The prefill of Mamba-2 runs the decode kernel token by token, which rounds the state to the pool's type after each: in a
pool of bfloat16 small increments to a large state are lost. The contract asks for float32, whatever the pool's type.

For the user: with --mamba-ssm-dtype bfloat16 long prompts are forgotten; with a pool of float32 nothing shows.
Follows: states kept in low precision within a scan.
level: kernels
"""

from typing import Any

import torch

from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core.portable.torch.state_space import state_space as right


def state_space(
    x: Any, step: Any, a: Any, b: Any, c: Any, d: Any, starts: Any, slots: Any, states: Any
) -> torch.Tensor:
    if starts is None:
        return right(x, step, a, b, c, d, None, slots, states)
    out = torch.zeros_like(x)
    bounds = starts.tolist()
    for request, (begin, end) in enumerate(zip(bounds, bounds[1:], strict=False)):
        for token in range(begin, end):
            one = slice(token, token + 1)
            slot = slots[request : request + 1]
            out[one] = right(x[one], step[one], a, b[one], c[one], d, None, slot, states)
    return out


class Platform(ReferencePlatform):
    def get_state_kernels(self) -> dict[str, Any]:
        return {"state_space": state_space}
