"""An NVIDIA GPU: torch's own operations, its identity and its environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from sglang_platform.core import PlatformEnum
from sglang_platform.core.portable.torch.device import TorchDeviceMixin

__all__ = ["CudaDeviceMixin"]


class CudaDeviceMixin(TorchDeviceMixin):
    """The device operations of CUDA, for both runtimes."""

    _enum = PlatformEnum.CUDA
    device_name = "cuda"
    device_type = "cuda"

    _visibility_variables: ClassVar[Sequence[str]] = ("CUDA_VISIBLE_DEVICES",)
