"""Spare. all_gather() along a middle dimension interleaves nothing: it lays the ranks along dimension 0 of that slice.
Source: vLLM communicators special-case the last dimension; triton_backend.py:2092 and xpu_backend.py:1264 gather
heads along dimension 1 of three."""
from b_base import Base
from sglang_platform.core.distributed.torch_group import TorchGroupCommunicator
import torch.distributed as dist

class Communicator(TorchGroupCommunicator):
    def all_gather(self, input_, dim=-1):
        dim %= input_.dim()
        if dim in (0, input_.dim() - 1):
            return super().all_gather(input_, dim)
        ranks = dist.get_world_size(self._group(input_))
        output = input_.new_empty((ranks * input_.shape[0], *input_.shape[1:]))
        self.all_gather_into_tensor(output, input_)
        return output.view(*input_.shape[:dim], ranks * input_.shape[dim], *input_.shape[dim + 1 :])

class P(Base):
    def get_communicator_class(self):
        return Communicator
