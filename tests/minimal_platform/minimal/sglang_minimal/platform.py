"""SGLang on a device that a torch plugin brings. Every part is SGLang's own or core's, until the vendor replaces it."""

from __future__ import annotations

import vendors_torch_plugin  # noqa: F401 - registers the device with torch, before SGLang asks for it

from sglang_platform.core import PlatformEnum, SRTPlatform
from sglang_platform.core.portable.torch.device import TorchDeviceMixin


class MinimalDeviceMixin(TorchDeviceMixin):
    _enum = PlatformEnum.OOT
    device_name = "minimal"
    device_type = "example_oot"


class MinimalPlatform(SRTPlatform, MinimalDeviceMixin):
    supported_page_sizes = (1, 16)
    supported_kv_dtypes = ("float32", "bfloat16", "float16")
