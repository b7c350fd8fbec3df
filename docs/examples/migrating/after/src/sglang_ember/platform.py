"""The platform: what SGLang asks for when it builds an engine, in the words of core's contract."""

from sglang_platform.core import FusedOp, PagedTokenToKVPoolAllocator, SRTPlatform
from sglang_platform.core.ops.fused_op import RMSNorm, SiluAndMul

from . import ops
from .attention import EmberAttention
from .device import EmberDevice
from .pools import EmberPool

MAX_REQUESTS = 8


class EmberPlatform(EmberDevice, SRTPlatform):
    supported_kv_kinds = ("mha",)
    supported_kv_dtypes = ("float32", "bfloat16", "float16")
    supported_page_sizes = (1, 16, 32, 64, 128)
    attention_features = ("mha", "gqa", "mqa", "chunked_prefill")

    def apply_server_args_defaults(self, server_args):
        server_args.sampling_backend = "pytorch"

    def finalize_server_args(self, server_args):
        asked = server_args.max_running_requests
        server_args.max_running_requests = MAX_REQUESTS if asked is None else min(asked, MAX_REQUESTS)

    def get_default_attention_backend(self):
        return "ember"

    def get_attention_backends(self):
        return {"ember": EmberAttention}

    def get_kv_pool_cls(self, *, kind):
        return EmberPool if kind == "mha" else None

    def get_paged_allocator_cls(self):
        return PagedTokenToKVPoolAllocator

    def get_dispatch_key_name(self):
        return "ember"

    def get_compile_backend(self, mode=None):
        return "eager"

    def init_backend(self):
        FusedOp.register_oot_forward(RMSNorm, ops.rms_norm, "ember")
        FusedOp.register_oot_forward(SiluAndMul, ops.silu_and_mul, "ember")
