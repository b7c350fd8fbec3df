"""Healthy: core's communicator unchanged on a device that is not the CPU."""
from b_base import Base
from sglang_platform.core.distributed.torch_group import TorchGroupCommunicator
class P(Base):
    def get_communicator_class(self):
        return TorchGroupCommunicator
