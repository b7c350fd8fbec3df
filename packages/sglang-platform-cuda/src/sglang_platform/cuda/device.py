"""An NVIDIA GPU: what it shares with AMD's is core's, so only its identity is left."""

from __future__ import annotations

from sglang_platform.core import PlatformEnum
from sglang_platform.core.portable.torch.device import TorchDeviceMixin

__all__ = ["CudaDeviceMixin"]


class CudaDeviceMixin(TorchDeviceMixin):
    """The device operations of CUDA, for both runtimes."""

    _enum = PlatformEnum.CUDA
    device_name = "cuda"
