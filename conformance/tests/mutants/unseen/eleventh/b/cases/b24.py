"""Large tensors are reduced in pieces of a MiB, and the last, smaller piece is left out.
Source: piece loops over registered buffers; a prefill of 257 tokens of 4,096 in bfloat16 is 2 MiB and 8 KiB."""
import torch.distributed as dist
from b_base import Base
from sglang_platform.core.distributed.torch_group import TorchGroupCommunicator

class Communicator(TorchGroupCommunicator):
    def all_reduce(self, input_):
        summed = input_.contiguous()
        flat, piece = summed.view(-1), (1 << 20) // summed.element_size()
        if flat.numel() <= piece:
            return super().all_reduce(input_)
        for i in range(flat.numel() // piece):
            dist.all_reduce(flat[i * piece : (i + 1) * piece], group=self._group(flat))
        return summed

class P(Base):
    def get_communicator_class(self):
        return Communicator
