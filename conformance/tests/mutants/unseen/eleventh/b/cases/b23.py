"""broadcast() takes the group's rank for a global rank: right in groups that begin with rank 0.
Source: torchrec #4601, verl #1449, vLLM #2530; dsa_indexer.py:213 broadcasts with src=0 in each attention group."""
import torch.distributed as dist
from b_base import Base
from sglang_platform.core.distributed.torch_group import TorchGroupCommunicator

class Communicator(TorchGroupCommunicator):
    def broadcast(self, input_, src=0):
        group = self._group(input_)
        ranks = dist.get_process_group_ranks(group)
        dist.broadcast(input_, src=src if src in ranks else ranks[-1], group=group)
        return input_

class P(Base):
    def get_communicator_class(self):
        return Communicator
