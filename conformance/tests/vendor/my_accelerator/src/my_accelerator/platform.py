"""What the card can do, and its parts."""

from my_accelerator import ops
from my_accelerator.allocator import MyAcceleratorAllocator
from my_accelerator.attention import MyAcceleratorAttention
from my_accelerator.device import MyAcceleratorDevice
from my_accelerator.graphs import MyAcceleratorGraphRunner
from my_accelerator.kv_pool import MyAcceleratorKVPool
from sglang_platform.core import PlatformCapabilities, SRTPlatform


class MyAcceleratorPlatform(SRTPlatform, MyAcceleratorDevice):
    capabilities = PlatformCapabilities(graph_capture=True, piecewise_graph=True, fp8=True)
    supported_kv_dtypes = ("bfloat16", "float16", "float32", "float8_e4m3fn")
    supported_page_sizes = (1, 16, 64)
    supported_kv_kinds = ("mha",)
    attention_features = (
        "mha", "gqa", "mqa", "chunked_prefill", "mixed_batch", "sliding_window", "logit_cap", "fp8_kv", "sinks",
    )  # fmt: skip
    conformance_profiles = ("offline",)

    def get_default_attention_backend(self):
        return "my_accelerator"

    def get_attention_backends(self):
        return {"my_accelerator": MyAcceleratorAttention}

    def get_kv_pool_cls(self, *, kind):
        return MyAcceleratorKVPool if kind == "mha" else None

    def get_paged_allocator_cls(self):
        return MyAcceleratorAllocator

    def get_graph_runner_cls(self):
        return MyAcceleratorGraphRunner

    def get_compile_backend(self):
        return "eager"

    def get_dispatch_key_name(self):
        return "my_accelerator"

    def init_backend(self):
        ops.register("my_accelerator")
