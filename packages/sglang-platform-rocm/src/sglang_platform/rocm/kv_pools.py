"""The KV pools for AMD GPUs: core's pools on this package's kernels, with the types they store."""

from __future__ import annotations

import torch

from sglang_platform.core.portable.triton.package_pools import package_pools
from sglang_platform.core.portable.triton.pool_kernels import PoolKernels
from sglang_platform.rocm.kernels.hardware import store_packed, store_pair
from sglang_platform.rocm.kernels.tuning import ARCHITECTURES

__all__ = ["POOLS", "STORED"]

STORED = (
    torch.bfloat16,
    torch.float16,
    torch.float32,
    torch.float8_e4m3fnuz,
    torch.float8_e4m3fn,
    torch.float8_e5m2fnuz,
    torch.float8_e5m2,
)
"""The element types that these pools store: `fnuz` is the fp8 of gfx942, the other two of gfx950; every device stores
all of them."""

POOLS = package_pools(
    __name__,
    "Rocm",
    PoolKernels(store_pair=store_pair, store_packed=store_packed, shapes_of=ARCHITECTURES.shapes),
    STORED,
)
"""The pool class of each kind."""
