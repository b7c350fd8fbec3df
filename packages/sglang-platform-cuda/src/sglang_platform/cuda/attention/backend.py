"""The attention backend for NVIDIA GPUs."""

from __future__ import annotations

from sglang_platform.core.portable.triton.attention import TritonAttentionBackend

__all__ = ["CudaAttentionBackend"]


class CudaAttentionBackend(TritonAttentionBackend):
    """Decode, extend and sparse attention on core's Triton kernels, which choose their shapes by architecture."""
