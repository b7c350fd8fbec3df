"""Collectives through `torch.distributed`: NCCL on CUDA, RCCL on ROCm (by the same name), gloo on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from sglang_platform.core.distributed.communicator import DeviceCommunicator

__all__ = ["TorchGroupCommunicator"]


class TorchGroupCommunicator(DeviceCommunicator):
    """All of the contract's collectives. Those on a device are queued on its current stream and can be captured.

    Tensors on the CPU go through the CPU group, all others through the device group. Inputs may have any strides;
    outputs that the caller gives must be contiguous.
    """

    def _group(self, tensor: torch.Tensor) -> Any:
        return self.cpu_group if tensor.device.type == "cpu" else self.device_group

    def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
        """The sum over ranks, in place where the tensor is contiguous; returns it."""
        summed = input_.contiguous()
        dist.all_reduce(summed, group=self._group(summed))
        return summed

    def all_gather(self, input_: torch.Tensor, dim: int = -1) -> torch.Tensor:
        """The ranks' tensors, all of one shape, side by side along `dim`."""
        ranks = dist.get_world_size(self._group(input_))
        dim %= input_.dim()
        output = input_.new_empty((ranks * input_.shape[0], *input_.shape[1:]))
        self.all_gather_into_tensor(output, input_)
        if dim == 0:
            return output
        parts = output.view(ranks, *input_.shape).movedim(0, dim)
        return parts.reshape(*input_.shape[:dim], ranks * input_.shape[dim], *input_.shape[dim + 1 :])

    def all_gather_into_tensor(self, output: torch.Tensor, input_: torch.Tensor) -> None:
        """The ranks' tensors one after another along dimension 0 of `output`."""
        dist.all_gather_into_tensor(output, input_.contiguous(), group=self._group(input_))

    def reduce_scatter_tensor(self, output: torch.Tensor, input_: torch.Tensor) -> None:
        """The sum over ranks; `output` takes this rank's share of its dimension 0."""
        group = self._group(input_)
        if dist.get_backend(group) == "gloo":
            # gloo has no reduce-scatter that all supported versions of torch offer.
            summed = input_.clone(memory_format=torch.contiguous_format)
            dist.all_reduce(summed, group=group)
            output.copy_(summed.chunk(dist.get_world_size(group))[dist.get_rank(group)])
            return
        dist.reduce_scatter_tensor(output, input_.contiguous(), group=group)

    def gather(self, input_: torch.Tensor, dst: int = 0, dim: int = -1) -> torch.Tensor | None:
        """Side by side along `dim` on rank `dst` of the group, None on the others."""
        # Not every backend of a device can gather to one rank.
        gathered = self.all_gather(input_, dim)
        return gathered if dist.get_rank(self._group(input_)) == dst else None

    def broadcast(self, input_: torch.Tensor, src: int = 0) -> torch.Tensor:
        """The tensor of rank `src` of the group, in place; returns it. Raises ValueError for a non-contiguous
        tensor."""
        if not input_.is_contiguous():
            raise ValueError("broadcast() works in place and needs a contiguous tensor")
        group = self._group(input_)
        dist.broadcast(input_, src=dist.get_global_rank(group, src), group=group)
        return input_

    def all_to_all_single(self, output: torch.Tensor, input_: torch.Tensor) -> None:
        """Part i of dimension 0 of `input_` goes to rank i of the group; the parts are equal."""
        dist.all_to_all_single(output, input_.contiguous(), group=self._group(input_))

    def all_gatherv(
        self, input_: torch.Tensor, sizes: Sequence[int] | None = None, output: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The ranks' rows one after another, `sizes[r]` of them from rank r; all alike where `sizes` is None.

        Raises ValueError where `input_` or `output` has another number of rows than `sizes` says.
        """
        group = self._group(input_)
        ranks, rank = dist.get_world_size(group), dist.get_rank(group)
        sizes = [input_.shape[0]] * ranks if sizes is None else list(sizes)
        _expect_rows("all_gatherv", input_, sizes[rank])
        if output is None:
            output = input_.new_empty((sum(sizes), *input_.shape[1:]))
        _expect_rows("all_gatherv", output, sum(sizes))
        if len(set(sizes)) == 1:
            self.all_gather_into_tensor(output, input_)
            return output
        # Not every backend gathers unequal parts: each rank's rows are padded to the longest.
        longest = max(sizes)
        mine = input_.new_zeros((longest, *input_.shape[1:]))
        mine[: sizes[rank]] = input_
        gathered = input_.new_empty((ranks * longest, *input_.shape[1:]))
        self.all_gather_into_tensor(gathered, mine)
        start = 0
        for r, size in enumerate(sizes):
            output[start : start + size] = gathered[r * longest : r * longest + size]
            start += size
        return output

    def reduce_scatterv(
        self, input_: torch.Tensor, output: torch.Tensor | None = None, sizes: Sequence[int] | None = None
    ) -> torch.Tensor:
        """The sum over ranks; rank r keeps `sizes[r]` rows of it, equal shares where `sizes` is None.

        Raises ValueError where `input_` or `output` has another number of rows than `sizes` says.
        """
        group = self._group(input_)
        ranks, rank = dist.get_world_size(group), dist.get_rank(group)
        if sizes is None:
            sizes = [input_.shape[0] // ranks] * ranks
        _expect_rows("reduce_scatterv", input_, sum(sizes))
        if output is None:
            output = input_.new_empty((sizes[rank], *input_.shape[1:]))
        _expect_rows("reduce_scatterv", output, sizes[rank])
        if len(set(sizes)) == 1:
            self.reduce_scatter_tensor(output, input_)
            return output
        summed = self.all_reduce(input_.clone(memory_format=torch.contiguous_format))
        start = sum(sizes[:rank])
        output.copy_(summed[start : start + sizes[rank]])
        return output

    def send(self, tensor: torch.Tensor, dst: int | None = None) -> None:
        """Send `tensor` to rank `dst` of the group, by default the next one."""
        group = self._group(tensor)
        dist.send(tensor.contiguous(), self._peer(group, dst, 1), group=group)

    def recv(self, size: Sequence[int], dtype: torch.dtype, src: int | None = None) -> torch.Tensor:
        """A new tensor on the communicator's device (the CPU where it has none) from rank `src`, by default the one
        before."""
        tensor = torch.empty(tuple(size), dtype=dtype, device=self.device)
        group = self._group(tensor)
        dist.recv(tensor, self._peer(group, src, -1), group=group)
        return tensor

    @staticmethod
    def _peer(group: Any, named: int | None, step: int) -> int:
        if named is None:
            named = (dist.get_rank(group) + step) % dist.get_world_size(group)
        peer: int = dist.get_global_rank(group, named)
        return peer


def _expect_rows(what: str, tensor: torch.Tensor, rows: int) -> None:
    if tensor.shape[0] != rows:
        raise ValueError(f"{what}() was given {tensor.shape[0]} rows where the sizes say {rows}")
