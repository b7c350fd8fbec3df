"""The decode graph runner for AMD GPUs."""

from __future__ import annotations

from sglang_platform.core.torch_cuda.graph_runner import TorchCudaGraphRunner

__all__ = ["RocmGraphRunner"]


class RocmGraphRunner(TorchCudaGraphRunner):
    """HIP graphs, through torch's API for CUDA graphs."""
