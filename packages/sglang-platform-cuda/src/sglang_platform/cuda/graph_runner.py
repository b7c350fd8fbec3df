"""Graphs of decode steps for NVIDIA GPUs."""

from __future__ import annotations

from sglang_platform.core.portable.torch.graph_runner import TorchGraphRunner

__all__ = ["CudaGraphRunner"]


class CudaGraphRunner(TorchGraphRunner):
    """CUDA graphs."""

    _device_type = "cuda"
