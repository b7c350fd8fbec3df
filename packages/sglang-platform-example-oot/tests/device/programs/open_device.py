"""Prints the device type that this process gets."""

from sglang_platform.example_oot.device import open_device

print(open_device())
