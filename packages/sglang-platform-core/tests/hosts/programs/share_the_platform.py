"""Shows that the host's platform and core's are one object, and its parts classes of both host and vendor."""

# ruff: noqa: E402 -- each import stands where the check first needs it

import sglang.srt.platforms as host

from sglang_platform.core import current_platform as ours

theirs = host.current_platform
assert theirs is ours, (theirs, ours)
from sglang.srt.platforms.interface import PlatformCapabilities, SRTPlatform

from sglang_platform.example_oot.platform import ExampleOOTPlatform

assert isinstance(ours, SRTPlatform)
assert isinstance(ours, ExampleOOTPlatform)
assert isinstance(ours.capabilities, PlatformCapabilities)
assert ours.capabilities.graph_capture
assert ours.capabilities.fp8 is True  # core's own field, kept beside the host's
assert ours.is_out_of_tree()
assert not ours.is_cuda_alike()
assert ours.get_device(None) == ours.device_type

from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool

from sglang_platform.example_oot.kv_pools import ExampleOOTMHAPool

pool = ours.get_kv_pool_cls(kind="mha")
assert issubclass(pool, MHATokenToKVPool)
assert issubclass(pool, ExampleOOTMHAPool)
assert ours.get_kv_pool_cls(kind="mha") is pool
from sglang.srt.mem_cache.memory_pool import MLATokenToKVPool

mla = ours.get_kv_pool_cls(kind="mla")
assert mla is None or issubclass(mla, MLATokenToKVPool)

from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator

assert issubclass(ours.get_paged_allocator_cls(), PagedTokenToKVPoolAllocator)

ours.init_backend()
from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend

assert issubclass(ATTENTION_BACKENDS["example_oot"], AttentionBackend)
import torch
from sglang.srt.layers.activation import SiluAndMul

from sglang_platform.core import counters

x = torch.randn(3, 16)
before = counters.counter("example_oot.fused_ops.SiluAndMul").value
assert torch.allclose(SiluAndMul()(x), torch.nn.functional.silu(x[:, :8]) * x[:, 8:], atol=1e-5)
assert counters.counter("example_oot.fused_ops.SiluAndMul").value == before + 1
