"""Prints the name of the diffusion runtime's platform; fails where core refuses its plugin."""

from sglang.multimodal_gen.runtime.platforms import current_platform

print(current_platform.device_name)
