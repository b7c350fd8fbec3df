"""Graphs for AMD GPUs: decode steps, and pieces of prefill."""

from __future__ import annotations

from sglang_platform.core.portable.torch.graph_runner import TorchGraphRunner
from sglang_platform.core.portable.torch.piecewise import TorchPiecewiseBackend

__all__ = ["RocmGraphRunner", "RocmPiecewiseBackend"]


class RocmGraphRunner(TorchGraphRunner):
    """HIP graphs, through torch's API for CUDA graphs."""

    _device_type = "cuda"


class RocmPiecewiseBackend(TorchPiecewiseBackend):
    """HIP graphs, through torch's API for CUDA graphs."""

    _device_type = "cuda"
