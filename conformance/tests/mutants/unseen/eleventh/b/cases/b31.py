"""Spare. initialize_device() makes current the device of the rank in the model-parallel world, and not of the machine.
Source: `torch.npu.set_device(rank)` of training scripts; with base_gpu_id=1 or a second machine they differ."""
import torch
from b_base import Base

class P(Base):
    def initialize_device(self, rank, local_rank):
        super().initialize_device(rank, local_rank)
        self.set_device(self.get_device(rank))
