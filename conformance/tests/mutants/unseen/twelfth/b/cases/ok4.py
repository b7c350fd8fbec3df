"""Healthy. A communicator that declines groups of fewer than eight ranks: it logs why, is `disabled` there, and refuses in
words if it is called all the same. Larger groups it serves through torch.distributed.

Permitted: DeviceCommunicator: "While `disabled` is True the host does all of them".
level: distributed
"""

import logging
from typing import Any

import torch
import torch.distributed as dist

from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core.distributed.torch_group import TorchGroupCommunicator

_log = logging.getLogger(__name__)
_FEWEST = 8


class Communicator(TorchGroupCommunicator):
    def __init__(self, cpu_group: Any, device: Any = None, device_group: Any = None, unique_name: str = "") -> None:
        super().__init__(cpu_group, device, device_group, unique_name)
        ranks = dist.get_world_size(cpu_group)
        self.disabled = ranks < _FEWEST
        if self.disabled:
            _log.info("group %s of %d ranks: the ring pays from %d ranks on, the host serves", unique_name, ranks, _FEWEST)

    def _group(self, tensor: torch.Tensor) -> Any:
        if self.disabled:
            raise NotImplementedError(f"disabled for groups of fewer than {_FEWEST} ranks: the host's collectives serve")
        return super()._group(tensor)


class Platform(ReferencePlatform):
    def get_communicator_class(self) -> type | None:
        return Communicator
