"""Graphs for AMD GPUs: decode steps, and pieces of prefill."""

from __future__ import annotations

from sglang_platform.core.torch_cuda.graph_runner import TorchCudaGraphRunner
from sglang_platform.core.torch_cuda.piecewise import TorchCudaPiecewiseBackend

__all__ = ["RocmGraphRunner", "RocmPiecewiseBackend"]


class RocmGraphRunner(TorchCudaGraphRunner):
    """HIP graphs, through torch's API for CUDA graphs."""


class RocmPiecewiseBackend(TorchCudaPiecewiseBackend):
    """HIP graphs, through torch's API for CUDA graphs."""
