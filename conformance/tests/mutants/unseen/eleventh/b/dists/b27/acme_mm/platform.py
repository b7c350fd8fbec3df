"""The diffusion platform's free memory comes in bytes and not in GiB (layerwise_offload.py:2859 and
gpu_worker.py:1165 multiply it by 2**30; component_loader.py:363 subtracts). Source: mem_get_info() handed on."""
from sglang_platform.example_oot.diffusion.platform import ExampleOOTDiffusionPlatform
from sglang_platform.example_oot.platform import ExampleOOTPlatform


class AcmePlatform(ExampleOOTPlatform):
    pass


class AcmeMMPlatform(ExampleOOTDiffusionPlatform):
    def get_available_gpu_memory(self, device_id=None, distributed=False, empty_cache=True, cpu_group=None):
        if empty_cache:
            self.empty_cache()
        return float(self.get_available_memory(device_id or 0)[0])
