"""The compiled libraries that SGLang imports on CUDA and ROCm, installed or not.

Where one is missing, or does not load with the installed torch, its modules are stubs (`stubs`). What models need of
them is then served by the package's kernels, or by torch (`ops.compiled_functions`). A launch that needs more is
refused (`arguments.compiled_libraries`).
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any, Final

from sglang_platform.core.installed.modules import find
from sglang_platform.core.sglang.versions import facts

__all__ = ["HANDLED", "imported_on"]

_SWITCHES: Final = {
    "deep_gemm": "SGLANG_ENABLE_JIT_DEEPGEMM",
    "flashinfer": "SGLANG_IS_FLASHINFER_AVAILABLE",
}
"""The variables by which SGLang leaves a library alone: it would take a stub for the library."""

_SGL_KERNEL = frozenset(
    {
        "sgl_kernel",
        "sgl_kernel.elementwise",
        "sgl_kernel.flash_attn",
        "sgl_kernel.flash_mla",
        "sgl_kernel.kvcacheio",
        "sgl_kernel.quantization",
        "sgl_kernel.sparse_flash_attn",
        "sgl_kernel.speculative",
        "sgl_kernel.utils",
    }
)
"""Those that SGLang 0.5.11 to 0.5.23 imports without being prepared for an ImportError."""

_AITER = frozenset(
    {
        "aiter",
        "aiter.ops.shuffle",
        "aiter.ops.triton.gemm.fused.fused_gemm_afp4wfp4_split_cat",
        "aiter.ops.triton.gemm_afp4wfp4",
        "aiter.ops.triton.gemm_afp4wfp4_pre_quant_atomic",
        "aiter.ops.triton.quant",
    }
)
"""Those that SGLang imports on ROCm even where `SGLANG_USE_AITER` is not set."""

HANDLED = frozenset(
    {
        "causal_conv1d_fwd",
        "causal_conv1d_update",
        "get_device_accessible_ptr",
        "kimi_k2_moe_fused_gate",
        "sgl_per_token_group_quant_8bit",
    }
)
"""Names whose ImportError SGLang handles with kernels of its own."""


def imported_on(platform: Any) -> Collection[str]:
    """The modules of compiled libraries that this release of SGLang imports for the identity of `platform`."""
    if platform.is_rocm():
        return _SGL_KERNEL | _AITER
    if not platform.is_cuda():
        return frozenset()
    for library, switch in _SWITCHES.items():
        if find(library)[0] is None:
            os.environ.setdefault(switch, "false")
    return _SGL_KERNEL | facts().imports_on_cuda
