"""broadcast() hands `src`, a rank of the group, to torch.distributed as a rank of the world: in every group that does not
begin at rank 0 it names another rank.

For the user: one tensor-parallel group works; with pipeline or data parallelism the second group stops with "is not part of
group".
Follows: OpenPipe/ART #919, meta-pytorch/torchrec #4601.
level: distributed
"""

import torch
import torch.distributed as dist

from sglang_platform.conformance.reference.communicator import ReferenceCommunicator
from sglang_platform.conformance.reference.platform import ReferencePlatform


class Communicator(ReferenceCommunicator):
    def broadcast(self, tensor: torch.Tensor, src: int = 0) -> torch.Tensor:
        dist.broadcast(tensor, src=src, group=self.group)
        return tensor


class Platform(ReferencePlatform):
    def get_communicator_class(self) -> type | None:
        return Communicator
