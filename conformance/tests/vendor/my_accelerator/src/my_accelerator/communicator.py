"""Collectives over the cards' links, which torch's process groups drive."""

import torch
import torch.distributed as dist

from sglang_platform.core.distributed.communicator import DeviceCommunicator


class MyAcceleratorCommunicator(DeviceCommunicator):
    def all_reduce(self, input_):
        total = input_.contiguous()
        dist.all_reduce(total)
        return total

    def all_gather(self, input_, dim=-1):
        input_ = input_.contiguous()
        parts = [torch.empty_like(input_) for _ in range(dist.get_world_size(self.device_group))]
        dist.all_gather(parts, input_, group=self.device_group)
        return torch.cat(parts, dim=dim)

    def all_gather_into_tensor(self, output, input_):
        output.copy_(self.all_gather(input_, dim=0))

    def broadcast(self, input_, src=0):
        dist.broadcast(input_, src=dist.get_global_rank(self.device_group, src), group=self.device_group)
        return input_
