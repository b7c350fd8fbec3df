"""all_reduce() returns a view of a registered buffer that the next all_reduce() writes.
Source: custom all-reduce with registered buffers (ROCm quick reduce, MUSA); a MoE layer adds two reduced tensors."""
import torch
import torch.distributed as dist
from b_base import Base
from sglang_platform.core.distributed.torch_group import TorchGroupCommunicator

class Communicator(TorchGroupCommunicator):
    def all_reduce(self, input_):
        kept = self.__dict__.setdefault("_registered", {})
        key = (input_.dtype, input_.device)
        buffer = kept.get(key)
        if buffer is None or buffer.numel() < input_.numel():
            buffer = kept[key] = input_.new_empty(max(input_.numel(), 1 << 16))
        view = buffer[: input_.numel()].view(input_.shape)
        view.copy_(input_)
        dist.all_reduce(view, group=self._group(view))
        return view

class P(Base):
    def get_communicator_class(self):
        return Communicator
