"""The KV pools for NVIDIA GPUs: core's pools on this package's kernels, with the types they store."""

from __future__ import annotations

import torch

from sglang_platform.core.portable.triton.package_pools import package_pools
from sglang_platform.core.portable.triton.pool_kernels import PoolKernels
from sglang_platform.cuda.kernels.hardware import store_packed, store_pair
from sglang_platform.cuda.kernels.tuning import ARCHITECTURES

__all__ = ["POOLS", "STORED"]

STORED = (
    torch.bfloat16,
    torch.float16,
    torch.float32,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
)
"""The element types that these pools store."""

POOLS = package_pools(
    __name__,
    "Cuda",
    PoolKernels(store_pair=store_pair, store_packed=store_packed, shapes_of=ARCHITECTURES.shapes),
    STORED,
)
"""The pool class of each kind."""
