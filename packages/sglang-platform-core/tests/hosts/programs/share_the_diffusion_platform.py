"""Shows that the diffusion runtime's platform and core's are one object, with the vendor's attention and device."""

# ruff: noqa: E402 -- each import stands where the check first needs it

import pytest
import sglang.multimodal_gen.runtime.platforms as host

from sglang_platform.core import current_mm_platform as ours

assert host.current_platform is ours
assert isinstance(ours, host.Platform)
from sglang_platform.example_oot.diffusion.platform import ExampleOOTDiffusionPlatform

assert isinstance(ours, ExampleOOTDiffusionPlatform)
assert type(ours).__name__ == "ExampleOOTDiffusionPlatform"
assert ours._enum is host.PlatformEnum.OOT
assert ours.is_out_of_tree()
assert not ours.is_cuda_alike()
assert host.get_selected_platform_dist() == "sglang-platform-example-oot"

# The vendor's attention, as the host's selector gets it.
from pkgutil import resolve_name

import torch
from sglang.multimodal_gen.runtime.layers.attention.backends.attention_backend import (
    AttentionBackend,
    AttentionImpl,
    AttentionRequirements,
)
from sglang.multimodal_gen.runtime.platforms import AttentionBackendEnum

place = ours.get_attn_backend_cls_str(None, 64, torch.float32)
backend = resolve_name(place)
assert backend is ours.get_attn_backend(None, 64, torch.float32)
assert issubclass(backend, AttentionBackend)
assert backend.get_enum() is AttentionBackendEnum.TORCH_SDPA
from sglang_platform.example_oot.diffusion.attention import ExampleOOTDiffusionAttention

impl = backend.get_impl_cls()
assert issubclass(impl, AttentionImpl)
assert issubclass(impl, ExampleOOTDiffusionAttention)
assert backend.supports_packed_varlen()
assert backend.unsupported_requirements(AttentionRequirements(packed_varlen=True)) == ()
layer = impl(num_heads=2, head_size=32, softmax_scale=0.2, causal=False, num_kv_heads=2, prefix="x.impl")
q = torch.randn(1, 9, 2, 32)
want = torch.nn.functional.scaled_dot_product_attention(
    *(q.transpose(1, 2) for _ in range(3)), scale=0.2
).transpose(1, 2)
assert (layer.forward(q, q, q, None) - want).abs().max() < 1e-5
assert layer.forward_into(q, q, q, None, None) is False  # the host's default

for member in AttentionBackendEnum:
    if member.name == "TORCH_SDPA":
        continue
    with pytest.raises(ValueError, match=member.name):
        ours.get_attn_backend_cls_str(member, 64, torch.float32)

# The worker's initialisation: once, and the device module complete.
assert not hasattr(torch.cpu, "reset_peak_memory_stats")
host.initialize_current_platform()
host.initialize_current_platform()
from sglang_platform.core import counter

assert counter("example_oot.diffusion.backend_initialised").value == 1
module = torch.get_device_module()
module.reset_peak_memory_stats()
assert module.max_memory_allocated() > 0
assert len(module.mem_get_info()) == 2
assert module.get_device_properties(0).total_memory == ours.get_device_total_memory()

# The host wants the communicator named.
with pytest.raises(NotImplementedError, match="get_all_to_all_communicator_cls"):
    ours.get_all_to_all_communicator_cls()
