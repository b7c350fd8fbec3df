"""The attention backend on AMD GPUs.

Core's Triton kernels, with the tuning of each CDNA generation; `attention` in `SGLANG_PLATFORM_PARTS` says when it
serves in a host.
"""

from __future__ import annotations

from sglang_platform.core.torch_cuda.attention import TritonAttentionBackend

__all__ = ["RocmAttentionBackend"]


class RocmAttentionBackend(TritonAttentionBackend):
    """MHA, GQA, MQA, MLA and sparse MLA on gfx90a, gfx942 and gfx950."""
