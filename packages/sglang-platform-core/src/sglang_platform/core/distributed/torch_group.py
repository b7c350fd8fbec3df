"""Collectives through `torch.distributed`: NCCL on CUDA, RCCL on ROCm (by the same name), gloo on the CPU."""

from __future__ import annotations

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
        group = self._group(input_)
        here = dist.get_rank(group) == dst
        input_ = input_.contiguous()
        parts = [torch.empty_like(input_) for _ in range(dist.get_world_size(group))] if here else None
        dist.gather(input_, parts, dst=dist.get_global_rank(group, dst), group=group)
        return torch.cat(parts, dim=dim) if parts is not None else None

    def broadcast(self, input_: torch.Tensor, src: int = 0) -> torch.Tensor:
        """The tensor of rank `src` of the group, in place; returns it. Raises ValueError for one with gaps."""
        if not input_.is_contiguous():
            raise ValueError("broadcast() works in place and needs a contiguous tensor")
        group = self._group(input_)
        dist.broadcast(input_, src=dist.get_global_rank(group, src), group=group)
        return input_
