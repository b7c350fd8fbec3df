"""Imports for CUDA only, at the top, guarded, asked for and inside functions."""

import sgl_kernel
from sglang.srt.layers.devices import is_cuda

try:
    import flashinfer
except ImportError:
    flashinfer = None

if is_cuda():
    from deep_gemm import gemm


def late():
    from cutlass import cute

    return cute, gemm, flashinfer, sgl_kernel, "import flash_attn"
