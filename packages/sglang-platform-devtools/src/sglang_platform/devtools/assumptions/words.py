"""Words that indicate a device in the host's source."""

from __future__ import annotations

import re

__all__ = [
    "CUDA_ONLY",
    "DEVICES",
    "asks_for_cuda",
    "device_of_module",
    "is_cuda_module",
    "is_device_word",
    "is_false_off_cuda",
    "is_true_off_cuda",
]

DEVICES = frozenset(
    {"cuda", "hip", "rocm", "npu", "xpu", "hpu", "musa", "cpu", "mps", "mlu", "tpu", "xla", "sail", "meta"}
)
"""Device types that the host names."""

CUDA_ONLY = frozenset(
    {
        "apex", "causal_conv1d", "cuda", "cudnn", "cupy", "cutlass", "deep_ep", "deep_gemm", "deepep",
        "fast_hadamard_transform", "fbgemm_gpu", "flash_attn", "flash_attn_interface", "flash_mla", "flashinfer",
        "flashmla", "mamba_ssm", "nixl_ep", "nunchaku", "nvshmem", "pplx_kernels", "pynvml", "quack",
        "sageattention", "sgl_flash_attn", "sgl_kernel", "spas_sage_attn", "tensorrt_llm", "tensorrt",
        "torch_memory_saver", "transformer_engine", "triton_kernels", "vsa", "xformers",
    }
)  # fmt: skip
"""Top-level packages of CUDA kernels or libraries."""

_OWN = ("sglang.jit_kernel", "sglang.kernels.jit", "sglang.kernels.plugin_kernels.nvidia")
"""The host's packages that the CUDA compiler builds on first use."""

_BY_DEVICE = ("hardware_backend", "platforms")
"""Folders of the host with one module per device, of which a process loads one."""

_FALSE = re.compile(
    r"_*(?:"
    r"is_(?:cuda|hip|rocm|npu|xpu|hpu|musa|mps|mlu|tpu|cpu|sail|mlx)(?:_(?:alike|available|supported|platform))?"
    r"|(?:is|has|support|supports|device_is)_(?:hopper|blackwell|ampere|ada(?![a-z])|sm_?\d+|gfx)\w*"
    # a backend's `is_triton()` tests the chosen backend: an argument, not a device
    r"|(?:has|have|support|supports)_(?:triton|flashinfer|sgl_kernel|deep_gemm|deep_ep|cutlass|aiter|amx)"
    r"|is_(?:triton|flashinfer|sgl_kernel|deep_gemm|deep_ep|cutlass|aiter)_(?:available|supported|installed)"
    r"|use_(?:aiter|mlx|intel_amx_backend)|cpu_has_amx_support|is_host_cpu_\w+"
    r"|(?:is_)?(?:enable_)?(?:flashinfer|deep_?gemm|aiter|sgl_kernel)_available"
    r")"
)
_TRUE = re.compile(r"_*is_(?:out_of_tree|oot)")
_CUDA = re.compile(
    r"_*(?:is_cuda(?:_(?:alike|available|supported|platform))?"
    r"|(?:is|has|support|supports|device_is)_(?:hopper|blackwell|ampere|ada(?![a-z])|sm_?\d+)\w*)"
)


def device_of_module(name: str) -> str:
    """The device that a module of the host is for, by its path; empty for all others."""
    parts = name.split(".")
    for folder in _BY_DEVICE:
        if folder in parts:
            below = parts[parts.index(folder) + 1 :]
            return next((one for one in below if one in DEVICES or folder == "hardware_backend"), "")
    return ""


def is_device_word(value: object) -> bool:
    """True if a constant is the name of a device type, with or without an index."""
    return isinstance(value, str) and value.partition(":")[0] in DEVICES


def is_false_off_cuda(name: str) -> bool:
    """True if a function, flag or attribute of this name is false on a device that the host does not know."""
    return _FALSE.fullmatch(name) is not None


def is_true_off_cuda(name: str) -> bool:
    return _TRUE.fullmatch(name) is not None


def asks_for_cuda(name: str) -> bool:
    """True if a function, flag or attribute of this name tests for CUDA or a CUDA architecture."""
    return _CUDA.fullmatch(name) is not None


def is_cuda_module(name: str) -> bool:
    """True for a CUDA-only package, or a package of the host that is compiled for CUDA."""
    if name.startswith("numba.cuda"):
        return True
    return name.partition(".")[0] in CUDA_ONLY or any(
        name == one or name.startswith(f"{one}.") for one in _OWN
    )
