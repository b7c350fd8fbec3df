"""The collectives of one group, through torch.distributed."""

from __future__ import annotations

from collections.abc import Sequence

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
        input_ = input_.contiguous()
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

    def all_gather_into_tensor(self, output: torch.Tensor, input_: torch.Tensor) -> None:
        """The inputs of all ranks along dimension 0, by rank, into `output`."""
        output.copy_(self.all_gather(input_, dim=0))

    def reduce_scatter_tensor(self, output: torch.Tensor, input_: torch.Tensor) -> None:
        """This rank's share of dimension 0 of the sum over the ranks, into `output`."""
        output.copy_(self.reduce_scatter(input_, dim=0))

    def gather(self, input_: torch.Tensor, dst: int = 0, dim: int = -1) -> torch.Tensor | None:
        """The inputs of all ranks along `dim`, by rank, on rank `dst` of the group; None on the others."""
        gathered = self.all_gather(input_, dim=dim)
        return gathered if self.rank == dst else None

    def all_to_all_single(self, output: torch.Tensor, input_: torch.Tensor) -> None:
        """Part i of dimension 0 goes to rank i; `output` has the parts meant for this rank, by sender."""
        parts = [torch.empty_like(input_) for _ in range(self.world_size)]
        dist.all_gather(parts, input_.contiguous(), group=self.group)
        output.copy_(torch.cat([part.chunk(self.world_size)[self.rank] for part in parts]))

    def all_gatherv(
        self, input_: torch.Tensor, sizes: Sequence[int] | None = None, output: torch.Tensor | None = None
    ) -> torch.Tensor:
        """`sizes[r]` rows of each rank r, by rank."""
        rows = [input_.shape[0]] * self.world_size if sizes is None else list(sizes)
        padded = input_.new_zeros((max(rows), *input_.shape[1:]))
        padded[: input_.shape[0]] = input_
        parts = [torch.empty_like(padded) for _ in range(self.world_size)]
        dist.all_gather(parts, padded, group=self.group)
        gathered = torch.cat([part[:count] for part, count in zip(parts, rows, strict=True)])
        return gathered if output is None else output.copy_(gathered)

    def reduce_scatterv(
        self, input_: torch.Tensor, output: torch.Tensor | None = None, sizes: Sequence[int] | None = None
    ) -> torch.Tensor:
        """Of the sum over the ranks, the `sizes[r]` rows of this rank r."""
        rows = [input_.shape[0] // self.world_size] * self.world_size if sizes is None else list(sizes)
        total = self.all_reduce(input_.clone(memory_format=torch.contiguous_format))
        start = sum(rows[: self.rank])
        mine = total[start : start + rows[self.rank]]
        return mine.clone() if output is None else output.copy_(mine)

    def send(self, tensor: torch.Tensor, dst: int | None = None) -> None:
        """To rank `dst` of the group, by default the next in a circle."""
        peer = (self.rank + 1) % self.world_size if dst is None else dst
        dist.send(tensor.contiguous(), dist.get_global_rank(self.group, peer), group=self.group)

    def recv(self, size: Sequence[int], dtype: torch.dtype, src: int | None = None) -> torch.Tensor:
        """From rank `src` of the group, by default the one before in a circle."""
        peer = (self.rank - 1) % self.world_size if src is None else src
        tensor = torch.empty(tuple(size), dtype=dtype, device=self.device)
        dist.recv(tensor, dist.get_global_rank(self.group, peer), group=self.group)
        return tensor
