"""The attention backend for AMD GPUs."""

from __future__ import annotations

from sglang_platform.core.portable.triton.attention import TritonAttentionBackend

__all__ = ["RocmAttentionBackend"]


class RocmAttentionBackend(TritonAttentionBackend):
    """Decode, extend and sparse attention on core's Triton kernels, which choose their shapes by architecture."""
