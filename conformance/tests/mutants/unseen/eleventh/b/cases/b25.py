"""The process group's all_reduce knows sums only, whatever is asked for.
Source: first versions of vendors' ProcessGroups; srt/layers/sampler.py:726 takes the MIN of the token ids of the ranks
where a grammar is used."""
import torch.distributed as dist
from b_base import Base
from sglang_platform.example_oot import device
from sglang_platform.example_oot.device_type import NAME
from sglang_platform.example_oot.torch_device.process_group import DeviceProcessGroup, _contiguous

class Group(DeviceProcessGroup):
    def getBackendName(self):
        return "acme_ccl"
    def allreduce(self, tensors, opts=None):
        return self._queue("all_reduce", _contiguous(tensors), [], 0)

class P(Base):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if self.device_type == NAME and "ACME_CCL" not in dist.Backend._plugins:
            dist.Backend.register_backend("acme_ccl", Group, devices=[NAME])
    def get_torch_distributed_backend_str(self):
        return "acme_ccl" if self.device_type == NAME else "gloo"
