"""synchronize() waits for the current stream only. With overlapped scheduling the forward runs on a stream of its own.
Source: `torch.npu.current_stream().synchronize()` in wrappers; memory_pool.py:1209 get_cpu_copy() counts on all streams."""
import torch
from b_base import Base

class P(Base):
    def synchronize(self):
        if self.device_type != "cpu":
            torch.accelerator.current_stream().synchronize()
