"""The attention backend on NVIDIA GPUs.

Core's Triton kernels, with the tuning of each compute capability; `attention` in `SGLANG_PLATFORM_PARTS` says when it
serves in a host.
"""

from __future__ import annotations

from sglang_platform.core.torch_cuda.attention import TritonAttentionBackend

__all__ = ["CudaAttentionBackend"]


class CudaAttentionBackend(TritonAttentionBackend):
    """MHA, GQA, MQA, MLA and sparse MLA on sm_80 and later."""
