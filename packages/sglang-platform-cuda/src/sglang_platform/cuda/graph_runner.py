"""Graphs for NVIDIA GPUs: decode steps, and pieces of prefill."""

from __future__ import annotations

from sglang_platform.core.portable.torch.graph_runner import TorchGraphRunner
from sglang_platform.core.portable.torch.piecewise import TorchPiecewiseBackend

__all__ = ["CudaGraphRunner", "CudaPiecewiseBackend"]


class CudaGraphRunner(TorchGraphRunner):
    """CUDA graphs."""

    _device_type = "cuda"


class CudaPiecewiseBackend(TorchPiecewiseBackend):
    """CUDA graphs."""

    _device_type = "cuda"
