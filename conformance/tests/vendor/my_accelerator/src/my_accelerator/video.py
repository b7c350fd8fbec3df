"""The same device for the diffusion runtime."""

from sglang_platform.core import MMPlatform, mm_platform_plugin
from my_accelerator.device import MyAcceleratorDevice


@mm_platform_plugin
def activate():
    return "my_accelerator.video:MyAcceleratorDiffusion"


class MyAcceleratorDiffusion(MMPlatform, MyAcceleratorDevice):
    """Attention is torch's own; the cards share the memory of the machine."""

    dispatch_key = "CPU"
    simple_compile_backend = "eager"

    def device_shares_host_memory(self):
        return True

    def enable_dit_layerwise_offload_by_default(self):
        return False
