"""An AMD GPU: torch drives it through `torch.cuda` as well, so only its identity and its environment are
left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from sglang_platform.core import PlatformEnum
from sglang_platform.core.portable.torch.device import TorchDeviceMixin

__all__ = ["RocmDeviceMixin"]


class RocmDeviceMixin(TorchDeviceMixin):
    """The device operations of ROCm, for both runtimes. `device_type` stays `"cuda"`, torch's name for HIP
    devices."""

    _enum = PlatformEnum.ROCM
    device_name = "rocm"
    device_type = "cuda"

    _visibility_variables: ClassVar[Sequence[str]] = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
