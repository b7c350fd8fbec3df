"""Spare. Memory in use is what tensors of this process hold: not what is cached, nor what other processes hold.
Source: `torch.<device>.memory_allocated()`; llama.cpp #24906. srt/utils/common.py:565-567 takes the rest as free."""
import torch
from b_base import Base

class P(Base):
    def get_current_memory_usage(self, device=None):
        index = getattr(device, "index", None)
        return float(torch.get_device_module(self.device_type).memory_allocated(index)) if self.device_type != "cpu" else 0.0
