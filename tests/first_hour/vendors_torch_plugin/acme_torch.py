"""What a vendor's torch plugin does when it is imported, like `torch_npu`: register a device, here the example's."""

from sglang_platform.example_oot.device import open_device

open_device()
