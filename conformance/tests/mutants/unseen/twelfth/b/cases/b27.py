"""reduce_scatterv() finds a rank's rows at rank * its own count: right for equal counts, and for rank 0; with uneven ones the
other ranks get rows that belong to somebody else.

For the user: data-parallel attention with batches of different lengths mixes the tokens of its ranks.
Follows: offsets computed by multiplication where sizes vary.
level: distributed
"""

from collections.abc import Sequence

import torch

from sglang_platform.conformance.reference.communicator import ReferenceCommunicator
from sglang_platform.conformance.reference.platform import ReferencePlatform


class Communicator(ReferenceCommunicator):
    def reduce_scatterv(
        self, input_: torch.Tensor, output: torch.Tensor | None = None, sizes: Sequence[int] | None = None
    ) -> torch.Tensor:
        count = input_.shape[0] // self.world_size if sizes is None else list(sizes)[self.rank]
        total = self.all_reduce(input_.clone(memory_format=torch.contiguous_format))
        start = min(self.rank * count, input_.shape[0] - count)
        mine = total[start : start + count]
        return mine.clone() if output is None else output.copy_(mine)


class Platform(ReferencePlatform):
    def get_communicator_class(self) -> type | None:
        return Communicator
