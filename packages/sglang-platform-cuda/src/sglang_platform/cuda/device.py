"""An NVIDIA GPU: what it shares with AMD's is core's, so only its identity is left."""

from __future__ import annotations

from sglang_platform.core import PlatformEnum
from sglang_platform.core.torch_cuda.device import TorchCudaDeviceMixin

__all__ = ["CudaDeviceMixin"]


class CudaDeviceMixin(TorchCudaDeviceMixin):
    """The device operations of CUDA, for both runtimes."""

    _enum = PlatformEnum.CUDA
    device_name = "cuda"
