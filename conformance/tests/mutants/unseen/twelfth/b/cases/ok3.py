"""Healthy. A communicator that derives from nothing, holds one of core's and hands four collectives on to it; it has no
others, which the host then does itself.

Permitted: DeviceCommunicator: "deriving from it is not required"; "a device implements those of COLLECTIVES that it does
better than the host; the host does the others".
level: distributed
"""

from typing import Any

import torch

from sglang_platform.conformance.reference.platform import ReferencePlatform


class Communicator:
    def __init__(self, cpu_group: Any, device: Any = None, device_group: Any = None, unique_name: str = "") -> None:
        from sglang_platform.core.distributed.torch_group import TorchGroupCommunicator

        self.disabled = False
        self._carrier = TorchGroupCommunicator(cpu_group, device, device_group, unique_name)

    def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
        return self._carrier.all_reduce(input_)

    def all_gather(self, input_: torch.Tensor, dim: int = -1) -> torch.Tensor:
        return self._carrier.all_gather(input_, dim)

    def broadcast(self, input_: torch.Tensor, src: int = 0) -> torch.Tensor:
        return self._carrier.broadcast(input_, src)

    def reduce_scatter_tensor(self, output: torch.Tensor, input_: torch.Tensor) -> None:
        self._carrier.reduce_scatter_tensor(output, input_)


class Platform(ReferencePlatform):
    def get_communicator_class(self) -> type | None:
        return Communicator
