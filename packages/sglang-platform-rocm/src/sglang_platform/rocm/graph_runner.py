"""Graphs of decode steps for AMD GPUs."""

from __future__ import annotations

from sglang_platform.core.portable.torch.graph_runner import TorchGraphRunner

__all__ = ["RocmGraphRunner"]


class RocmGraphRunner(TorchGraphRunner):
    """HIP graphs, through torch's API for CUDA graphs."""

    _device_type = "cuda"
