"""all_reduce answers small inputs (up to 16 KiB) in a workspace of the communicator, which the next call of that shape
overwrites: a result that is held changes.

For the user: decode of small batches, where two sums are alive at once (attention and experts, a residual), is wrong; large
prefills are right.
Follows: custom all-reduce kernels with registered buffers.
level: distributed
"""

from typing import Any

import torch
import torch.distributed as dist

from sglang_platform.conformance.reference.communicator import ReferenceCommunicator
from sglang_platform.conformance.reference.platform import ReferencePlatform


class Communicator(ReferenceCommunicator):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._registered: dict[Any, torch.Tensor] = {}

    def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
        if input_.numel() * input_.element_size() > 16384:
            return super().all_reduce(input_)
        key = (input_.shape, input_.dtype)
        kept = self._registered.setdefault(key, torch.empty(input_.shape, dtype=input_.dtype))
        kept.copy_(input_)
        dist.all_reduce(kept, group=self.group)
        return kept


class Platform(ReferencePlatform):
    def get_communicator_class(self) -> type | None:
        return Communicator
