"""The attention backend for NVIDIA GPUs."""

from __future__ import annotations

from sglang_platform.core.portable.triton.attention import TritonAttentionBackend
from sglang_platform.core.portable.triton.attention_kernels import AttentionKernels
from sglang_platform.cuda.kernels.decode import paged_decode
from sglang_platform.cuda.kernels.hardware import index_logits, paged_extend
from sglang_platform.cuda.kernels.tuning import ARCHITECTURES

__all__ = ["CudaAttentionBackend"]


class CudaAttentionBackend(TritonAttentionBackend):
    """Decode, extend and sparse attention on kernels that choose their shapes by architecture."""

    kernels = AttentionKernels(
        decode=paged_decode, extend=paged_extend, index_logits=index_logits, shapes_of=ARCHITECTURES.shapes
    )
