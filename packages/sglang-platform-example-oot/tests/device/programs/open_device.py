"""Prints the device type that this process gets."""

from sglang_platform.example_oot import torch_device

print(torch_device.open_device())
