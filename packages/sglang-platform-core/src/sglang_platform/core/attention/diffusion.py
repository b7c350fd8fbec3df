"""Attention of the diffusion runtime: dense, one object per layer, no cache.

A vendor subclasses `DiffusionAttention` and names the class in `MMPlatform.get_attn_backend_cls_str()`. In SGLang the
adapter re-bases it on the host's `AttentionImpl` and gives it the host's backend descriptor.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from sglang_platform.core.contract.parts import Part

if TYPE_CHECKING:
    import torch

__all__ = ["DiffusionAttention"]


class DiffusionAttention(Part):
    """softmax(softmax_scale * Q K^T) V over a whole sequence. A subclass writes `forward`.

    The host constructs one per attention layer with keywords, and calls `forward` once per layer and denoising step,
    under `torch.inference_mode`. For padded batches the host uses torch's masked attention instead of this class.
    """

    host_backend: ClassVar[str] = "TORCH_SDPA"
    """The member of the host's `AttentionBackendEnum` under which models select this class. `TORCH_SDPA` is exact dense
    attention, which every model accepts; a sparse or approximate member promises the computation of that backend."""

    def __init__(
        self,
        num_heads: int,
        head_size: int,
        softmax_scale: float,
        causal: bool = False,
        num_kv_heads: int | None = None,
        prefix: str = "",
        **extra_impl_args: Any,
    ) -> None:
        """`num_heads` query heads of `head_size` elements, `num_kv_heads` (None: as many) of keys and values, counted
        on this rank; `prefix` is the layer's name."""
        self.num_heads = num_heads
        self.num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        self.head_size = head_size
        self.softmax_scale = softmax_scale
        self.causal = causal
        self.prefix = prefix

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_metadata: Any
    ) -> torch.Tensor:
        """`query` [B, Sq, H, D], `key` and `value` [B, Sk, Hk, D] -> [B, Sq, H, D] of the same type.

        With `causal`, query i sees the keys up to i + Sk - Sq. `attn_metadata` is the host's, or None.
        """
        raise NotImplementedError(
            f"{type(self).__name__} does not implement forward(query, key, value, attn_metadata)"
        )

    def forward_varlen(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        *,
        cu_seqlens: torch.Tensor,
        max_seqlen: int,
        cu_seqlens_host: tuple[int, ...] | None = None,
    ) -> torch.Tensor:
        """Attention over concatenated sequences, `query` [T, H, D]: each attends to itself only.

        Sequence i is the rows `cu_seqlens[i]` to `cu_seqlens[i + 1]`, int32; `cu_seqlens_host` are the same numbers on
        the CPU, which saves a read from the device. The default calls `forward` for each sequence; rows outside all
        sequences are zeros.
        """
        bounds = cu_seqlens.tolist() if cu_seqlens_host is None else cu_seqlens_host
        out = query.new_zeros(query.shape)
        for start, stop in pairwise(bounds):
            if stop > start:
                rows = slice(start, stop)
                out[rows] = self.forward(query[None, rows], key[None, rows], value[None, rows], None)[0]
        return out
