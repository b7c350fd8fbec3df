"""The piecewise backend for devices whose torch module has graphs as `torch.cuda` has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch.utils._pytree import tree_map_only

from sglang_platform.core.graph.piecewise import PiecewiseBackend
from sglang_platform.core.graph.runner import Graph

__all__ = ["TorchPiecewiseBackend"]


class TorchPiecewiseBackend(PiecewiseBackend):
    """All pieces share the host's memory pool.

    Only a non-owning reference to a captured output is kept. The caller holds the output while the rest of the model is
    captured; afterwards its memory returns to the pool for later pieces, so a model of 32 layers needs the activations
    of one.
    """

    _device_type: ClassVar[str | None] = None
    """The device type whose torch module captures; None: that of the piece's tensors."""
    stream: Any = None
    """The stream to capture on; None is one of torch's own."""

    def record(self, run: Callable[[], Any]) -> tuple[Graph, Any]:
        graphs = torch.get_device_module(self._device_type or self.device.type)
        graph = graphs.CUDAGraph()
        with graphs.graph(graph, pool=self.graph_pool, stream=self.stream):
            output = run()
        graph.replay()
        return graph, output

    def keep(self, output: Any) -> Any:
        return tree_map_only(torch.Tensor, _without_owner, output)


def _without_owner(tensor: torch.Tensor) -> torch.Tensor:
    """A non-owning alias of the tensor's memory.

    torch reads the array interface for its device type `cuda` alone, which CUDA and ROCm builds share; a tensor of
    another device is returned unchanged and owns its memory.
    """
    if not tensor.is_cuda or tensor.numel() == 0:
        return tensor
    return torch.as_tensor(_Memory(tensor), device=tensor.device).view(tensor.dtype)


class _Memory:
    """A tensor's address and shape in the CUDA array interface (version 3), typed as integers of its item size, since
    the interface has no bfloat16 and no 8-bit floats."""

    def __init__(self, tensor: torch.Tensor) -> None:
        size = tensor.element_size()
        self.__cuda_array_interface__ = {
            "data": (tensor.data_ptr(), False),
            "shape": tuple(tensor.shape),
            "strides": tuple(stride * size for stride in tensor.stride()),
            "typestr": f"<i{size}" if size > 1 else "|i1",
            "version": 3,
        }
