"""The collectives of one group, through torch.distributed."""

from __future__ import annotations

import torch
import torch.distributed as dist

__all__ = ["ReferenceCommunicator"]


class ReferenceCommunicator:
    """Built once per group and rank, with the arguments of SGLang's device communicators."""

    def __init__(
        self,
        cpu_group: dist.ProcessGroup,
        device: torch.device | None = None,
        device_group: dist.ProcessGroup | None = None,
        unique_name: str = "",
    ) -> None:
        self.group = device_group or cpu_group
        self.device = device or torch.device("cpu")
        self.world_size = dist.get_world_size(self.group)
        self.rank = dist.get_rank(self.group)

    def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
        """The sum over the ranks, same shape; the input may be overwritten."""
        dist.all_reduce(input_, group=self.group)
        return input_

    def all_gather(self, input_: torch.Tensor, dim: int = -1) -> torch.Tensor:
        """The inputs of all ranks, one after another along `dim`, by rank."""
        parts = [torch.empty_like(input_) for _ in range(self.world_size)]
        dist.all_gather(parts, input_.contiguous(), group=self.group)
        return torch.cat(parts, dim=dim)

    def reduce_scatter(self, input_: torch.Tensor, dim: int = -1) -> torch.Tensor:
        """This rank's part along `dim` of the sum over the ranks."""
        total = self.all_reduce(input_.clone())
        return total.chunk(self.world_size, dim=dim)[self.rank].contiguous()

    def broadcast(self, tensor: torch.Tensor, src: int = 0) -> torch.Tensor:
        """The tensor of rank `src` of the group, on every rank."""
        dist.broadcast(tensor, src=dist.get_global_rank(self.group, src), group=self.group)
        return tensor
