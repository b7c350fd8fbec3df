"""Healthy. A subclass of core's communicator whose sums come in another order: all_reduce gathers, adds up in float32 by rank
from the last to the first, rounds once and answers a new tensor; gather sends to one rank only; all_gatherv broadcasts
rank by rank; all_to_all goes through a gather.

Permitted: DeviceCommunicator: "in place or as a new tensor"; results differ from the reference's by rounding only.
level: distributed
"""

from collections.abc import Sequence

import torch
import torch.distributed as dist

from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core.distributed.torch_group import TorchGroupCommunicator


class Communicator(TorchGroupCommunicator):
    def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
        group = self._group(input_)
        mine = input_.contiguous()
        parts = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, mine, group=group)
        wide = torch.float32 if input_.dtype in (torch.float16, torch.bfloat16) else input_.dtype
        total = parts[-1].to(wide)
        for part in reversed(parts[:-1]):
            total = total + part.to(wide)
        return total.to(input_.dtype)

    def gather(self, input_: torch.Tensor, dst: int = 0, dim: int = -1) -> torch.Tensor | None:
        group = self._group(input_)
        mine = input_.contiguous()
        here = dist.get_rank(group) == dst
        parts = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))] if here else None
        dist.gather(mine, parts, dst=dist.get_global_rank(group, dst), group=group)
        return None if parts is None else torch.cat(parts, dim=dim)

    def all_to_all_single(self, output: torch.Tensor, input_: torch.Tensor) -> None:
        group = self._group(input_)
        ranks, rank = dist.get_world_size(group), dist.get_rank(group)
        parts = [torch.empty_like(input_, memory_format=torch.contiguous_format) for _ in range(ranks)]
        dist.all_gather(parts, input_.contiguous(), group=group)
        output.copy_(torch.cat([part.chunk(ranks)[rank] for part in parts]))

    def all_gatherv(
        self, input_: torch.Tensor, sizes: Sequence[int] | None = None, output: torch.Tensor | None = None
    ) -> torch.Tensor:
        group = self._group(input_)
        ranks, rank = dist.get_world_size(group), dist.get_rank(group)
        counts = [input_.shape[0]] * ranks if sizes is None else list(sizes)
        parts = []
        for source, count in enumerate(counts):
            part = input_.new_empty((count, *input_.shape[1:]))
            if source == rank:
                part.copy_(input_)
            if count:
                dist.broadcast(part, src=dist.get_global_rank(group, source), group=group)
            parts.append(part)
        gathered = torch.cat(parts)
        return gathered if output is None else output.copy_(gathered)


class Platform(ReferencePlatform):
    def get_communicator_class(self) -> type | None:
        return Communicator
