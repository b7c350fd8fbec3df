"""The diffusion runtime."""

from typing import Any

import torch

from sglang_platform.conformance.reference.device import ReferenceDevice
from sglang_platform.core import DiffusionAttention, MMPlatform


class Attention(DiffusionAttention):
    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_metadata: Any) -> torch.Tensor:
        q, k, v = (x.transpose(1, 2) for x in (query, key, value))
        out = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=self.causal, scale=self.softmax_scale, enable_gqa=q.shape[1] != k.shape[1]
        )
        return out.transpose(1, 2).contiguous()


class DiffusionPlatform(MMPlatform, ReferenceDevice):
    device_name = "acme_b28"
    dispatch_key = "CPU"
    simple_compile_backend = "eager"

    def get_attn_backend_cls_str(self, selected_backend: Any, head_size: int, dtype: torch.dtype) -> str:
        name = getattr(selected_backend, "name", selected_backend)
        if name not in (None, "TORCH_SDPA"):
            raise ValueError(f"this device has no attention backend {name}, only TORCH_SDPA")
        return f"{Attention.__module__}.{Attention.__qualname__}"

    def get_all_to_all_communicator_cls(self) -> str:
        return self._host_communicator
