"""Graphs for NVIDIA GPUs: decode steps, and pieces of prefill."""

from __future__ import annotations

from sglang_platform.core.torch_cuda.graph_runner import TorchCudaGraphRunner
from sglang_platform.core.torch_cuda.piecewise import TorchCudaPiecewiseBackend

__all__ = ["CudaGraphRunner", "CudaPiecewiseBackend"]


class CudaGraphRunner(TorchCudaGraphRunner):
    """CUDA graphs."""


class CudaPiecewiseBackend(TorchCudaPiecewiseBackend):
    """CUDA graphs."""
