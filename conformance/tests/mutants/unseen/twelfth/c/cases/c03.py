"""A communicator with __slots__ that hands on to core's; answers are new tensors wherever a tensor is answered.

Permitted by: DeviceCommunicator ("deriving from it is not required"; all_reduce "in place or as a new tensor";
all_gatherv "returns `output`, made where it is None"). `broadcast` and whatever is given an output work in place, as
the same docstring wants. Whether `reduce_scatter` is there is open: "a collective that only SGLang's groups have".

level: distributed
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core.distributed.torch_group import TorchGroupCommunicator

_log = logging.getLogger(__name__)


def _handed_on(name: str) -> Callable[..., Any]:
    def collective(self: _Delegating, *args: Any, **kwargs: Any) -> Any:
        _log.debug("%s of %s", name, self.unique_name)
        return getattr(self._inner, name)(*args, **kwargs)

    collective.__name__ = name
    collective.__doc__ = getattr(TorchGroupCommunicator, name).__doc__
    return collective


class _Delegating:
    """Holds a communicator of core's, and nothing else can be put on it."""

    __slots__ = ("_inner", "device", "disabled", "unique_name")

    def __init__(
        self, cpu_group: Any, device: Any = None, device_group: Any = None, unique_name: str = ""
    ) -> None:
        self._inner = TorchGroupCommunicator(cpu_group, device, device_group, unique_name)
        self.device, self.unique_name, self.disabled = device, unique_name, False

    def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
        return self._inner.all_reduce(input_.clone(memory_format=torch.contiguous_format))

    def all_gather(self, input_: torch.Tensor, dim: int = -1) -> torch.Tensor:
        return self._inner.all_gather(input_, dim).contiguous()

    def gather(self, input_: torch.Tensor, dst: int = 0, dim: int = -1) -> torch.Tensor | None:
        return self._inner.gather(input_, dst, dim)

    def reduce_scatterv(
        self,
        input_: torch.Tensor,
        output: torch.Tensor | None = None,
        sizes: Sequence[int] | None = None,
    ) -> torch.Tensor:
        return self._inner.reduce_scatterv(input_, output=output, sizes=sizes)

    all_gather_into_tensor = _handed_on("all_gather_into_tensor")
    reduce_scatter_tensor = _handed_on("reduce_scatter_tensor")
    broadcast = _handed_on("broadcast")
    all_to_all_single = _handed_on("all_to_all_single")
    all_gatherv = _handed_on("all_gatherv")
    send = _handed_on("send")
    recv = _handed_on("recv")


class Platform(ReferencePlatform):
    """Nothing else differs."""

    def get_communicator_class(self) -> type | None:
        return _Delegating
