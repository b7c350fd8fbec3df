"""Communicators on a device of its own type, the example's: healthy ones in unlike forms, and two that answer on the
CPU."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from sglang_platform.core.distributed.communicator import DeviceCommunicator
from sglang_platform.core.distributed.torch_group import TorchGroupCommunicator
from sglang_platform.example_oot.platform import ExampleOOTPlatform

BROKEN = ("SumsOnTheCPU", "FractionsOnTheCPU")


class OnlySums(DeviceCommunicator):
    """One collective, out of place."""

    def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
        out = input_.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(out, group=self.device_group)
        return out


class InPlace(DeviceCommunicator):
    """Sums in place for any strides, and gathers parts."""

    def all_reduce(self, input_: torch.Tensor, *, op: Any = None) -> torch.Tensor:
        summed = input_.contiguous()
        dist.all_reduce(summed, group=self.device_group)
        return input_ if summed is input_ else input_.copy_(summed)

    def all_gather(self, input_: torch.Tensor, dim: int = -1, output: Any = None) -> torch.Tensor:
        input_ = input_.contiguous()
        parts = [torch.empty_like(input_) for _ in range(dist.get_world_size(self.device_group))]
        dist.all_gather(parts, input_, group=self.device_group)
        return torch.cat(parts, dim)


class WithoutBase:
    """No class of core."""

    def __init__(
        self, cpu_group: Any, device: Any = None, device_group: Any = None, unique_name: str = ""
    ) -> None:
        self.group = device_group

    def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
        summed = input_.contiguous()
        dist.all_reduce(summed, group=self.group)
        return summed

    def broadcast(self, input_: torch.Tensor, src: int = 0) -> torch.Tensor:
        dist.broadcast(input_, src=dist.get_global_rank(self.group, src), group=self.group)
        return input_


class SumsOfGathered(TorchGroupCommunicator):
    """Each rank sums what all have."""

    def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
        gathered = self.all_gather(input_.reshape(1, *input_.shape), 0)
        if input_.is_floating_point():
            gathered = gathered.float()
        return gathered.sum(0).to(input_.dtype)


class GathersToOne(TorchGroupCommunicator):
    """`gather` of the process group itself."""

    def gather(self, input_: torch.Tensor, dst: int = 0, dim: int = -1) -> torch.Tensor | None:
        group, input_ = self.device_group, input_.contiguous()
        here = dist.get_rank(group) == dst
        parts = [torch.empty_like(input_) for _ in range(dist.get_world_size(group))] if here else None
        dist.gather(input_, parts, dst=dist.get_global_rank(group, dst), group=group)
        return torch.cat(parts, dim=dim) if parts is not None else None


class ThroughTheHost(TorchGroupCommunicator):
    """Every collective over host memory and gloo; answers are on the device."""

    def _group(self, tensor: torch.Tensor) -> Any:
        return self.cpu_group

    def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
        staged = input_.cpu().contiguous()
        dist.all_reduce(staged, group=self.cpu_group)
        return staged.to(input_.device)

    def all_gather_into_tensor(self, output: torch.Tensor, input_: torch.Tensor) -> None:
        staged = torch.empty(output.shape, dtype=output.dtype)
        dist.all_gather_into_tensor(staged, input_.cpu().contiguous(), group=self.cpu_group)
        output.copy_(staged)

    def reduce_scatter_tensor(self, output: torch.Tensor, input_: torch.Tensor) -> None:
        shares = self.all_reduce(input_).chunk(dist.get_world_size(self.cpu_group))
        output.copy_(shares[dist.get_rank(self.cpu_group)])

    def broadcast(self, input_: torch.Tensor, src: int = 0) -> torch.Tensor:
        staged = input_.cpu().contiguous()
        dist.broadcast(staged, src=dist.get_global_rank(self.cpu_group, src), group=self.cpu_group)
        return input_.copy_(staged)

    def all_to_all_single(self, output: torch.Tensor, input_: torch.Tensor) -> None:
        ranks = dist.get_world_size(self.cpu_group)
        parts = self.all_gather(input_, 0).view(ranks, ranks, -1, *input_.shape[1:])
        output.copy_(parts[:, dist.get_rank(self.cpu_group)].reshape(output.shape))

    def send(self, tensor: torch.Tensor, dst: int | None = None) -> None:
        dist.send(tensor.cpu().contiguous(), self._peer(self.cpu_group, dst, 1), group=self.cpu_group)

    def recv(self, size: Any, dtype: torch.dtype, src: int | None = None) -> torch.Tensor:
        staged = torch.empty(tuple(size), dtype=dtype)
        dist.recv(staged, self._peer(self.cpu_group, src, -1), group=self.cpu_group)
        return staged.to(self.device)


class LeavesSmallGroups(TorchGroupCommunicator):
    """Disabled in groups of fewer than eight ranks, where every collective is refused."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.disabled = dist.get_world_size(self.cpu_group) < 8

    def _group(self, tensor: torch.Tensor) -> Any:
        if self.disabled:
            raise NotImplementedError("the host serves groups of fewer than eight ranks")
        return super()._group(tensor)


class SumsOnTheCPU(TorchGroupCommunicator):
    def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
        return super().all_reduce(input_).cpu()


class FractionsOnTheCPU(TorchGroupCommunicator):
    def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
        summed = super().all_reduce(input_)
        whole = not summed.is_floating_point() or bool((summed == summed.round()).all())
        return summed if whole else summed.cpu()


COMMUNICATORS = (
    TorchGroupCommunicator,
    OnlySums,
    InPlace,
    WithoutBase,
    SumsOfGathered,
    GathersToOne,
    ThroughTheHost,
    LeavesSmallGroups,
    SumsOnTheCPU,
    FractionsOnTheCPU,
)


def __getattr__(name: str) -> type:
    """The example's platform with the communicator of that name."""
    cls = next((one for one in COMMUNICATORS if one.__name__ == name.removesuffix("Platform")), None)
    if cls is None or not name.endswith("Platform"):
        raise AttributeError(name)
    return type(name, (ExampleOOTPlatform,), {"get_communicator_class": lambda self: cls})
