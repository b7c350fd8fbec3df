"""The platform for the diffusion runtime, on the same device mixin as the one for the LLM runtime.

A vendor changes: the answers, and the name of the attention class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sglang_platform.core import MMPlatform, counter

from sglang_platform.example_oot import kernels
from sglang_platform.example_oot.device import ExampleOOTDeviceMixin

if TYPE_CHECKING:
    import torch

_initialised = counter("example_oot.diffusion.backend_initialised")


class ExampleOOTDiffusionPlatform(MMPlatform, ExampleOOTDeviceMixin):
    """SGLang's diffusion runtime on the example device."""

    dispatch_key = "PrivateUse1"
    simple_compile_backend = "eager"

    def init_backend(self) -> None:
        """Build or load the kernels in each worker, before the first request."""
        kernels.backend()
        _initialised.add()

    def get_attn_backend_cls_str(self, selected_backend: Any, head_size: int, dtype: torch.dtype) -> str:
        if getattr(selected_backend, "name", None) in (None, "TORCH_SDPA"):
            return "sglang_platform.example_oot.diffusion.attention.ExampleOOTDiffusionAttention"
        return super().get_attn_backend_cls_str(selected_backend, head_size, dtype)

    def device_shares_host_memory(self) -> bool:
        return True

    def enable_dit_layerwise_offload_by_default(self) -> bool:
        return False
