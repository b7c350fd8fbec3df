"""Causal attention of the diffusion runtime is torch's `is_causal`, which aligns the mask at the top left: where there are
more keys than queries, query i sees the keys up to i, and not up to i + Sk - Sq.

For the user: autoregressive video, which goes on with kept keys, does not see the frames before; with equal lengths
nothing shows.
Follows: torch.nn.functional.scaled_dot_product_attention's alignment.
The distribution dists/b28 registers both platforms (`acme_b28`, active with ACME_B28=1).
level: kernels
"""

from typing import Any

import torch

from sglang_platform.conformance.reference.device import ReferenceDevice
from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core import DiffusionAttention, MMPlatform


class Attention(DiffusionAttention):
    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_metadata: Any) -> torch.Tensor:
        q, k, v = (x.transpose(1, 2) for x in (query, key, value))
        out = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=self.causal, scale=self.softmax_scale, enable_gqa=q.shape[1] != k.shape[1]
        )
        return out.transpose(1, 2).contiguous()


class DiffusionPlatform(MMPlatform, ReferenceDevice):
    dispatch_key = "CPU"
    simple_compile_backend = "eager"

    def get_attn_backend_cls_str(self, selected_backend: Any, head_size: int, dtype: torch.dtype) -> str:
        name = getattr(selected_backend, "name", selected_backend)
        if name not in (None, "TORCH_SDPA"):
            raise ValueError(f"this device has no attention backend {name}, only TORCH_SDPA")
        return f"{Attention.__module__}.{Attention.__qualname__}"

    def get_all_to_all_communicator_cls(self) -> str:
        return self._host_communicator


class Platform(ReferencePlatform):
    """Sound: the defect is in DiffusionPlatform."""
