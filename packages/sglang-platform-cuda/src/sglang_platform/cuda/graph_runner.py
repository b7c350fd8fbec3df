"""The decode graph runner for NVIDIA GPUs."""

from __future__ import annotations

from sglang_platform.core.torch_cuda.graph_runner import TorchCudaGraphRunner

__all__ = ["CudaGraphRunner"]


class CudaGraphRunner(TorchCudaGraphRunner):
    """CUDA graphs."""
