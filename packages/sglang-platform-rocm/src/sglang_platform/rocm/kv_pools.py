"""The KV pools for AMD GPUs: core's pools on this package's kernels, with the types they store."""

from __future__ import annotations

import torch

from sglang_platform.core.portable.triton.pool_kernels import PoolKernels
from sglang_platform.core.portable.triton.pools import TritonDSAPool, TritonMHAPool, TritonMLAPool
from sglang_platform.rocm.kernels.hardware import store_packed, store_pair
from sglang_platform.rocm.kernels.tuning import ARCHITECTURES

__all__ = ["BESIDE_HOST", "POOLS", "STORED", "RocmDSAPool", "RocmMHAPool", "RocmMLAPool"]

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


_KERNELS = PoolKernels(
    store_pair=store_pair,
    store_packed=store_packed,
    shapes_of=ARCHITECTURES.shapes,
)


class RocmMHAPool(TritonMHAPool):
    """Keys and values per head."""

    kernels = _KERNELS
    supported_dtypes = STORED


class RocmMLAPool(TritonMLAPool):
    """One latent row per token."""

    kernels = _KERNELS
    supported_dtypes = STORED


class RocmDSAPool(TritonDSAPool):
    """Latent rows and the indexer's keys."""

    kernels = _KERNELS
    supported_dtypes = STORED


class _MHABesideHost(RocmMHAPool):
    plain_stores_by_host = True


class _MLABesideHost(RocmMLAPool):
    plain_stores_by_host = True


class _DSABesideHost(RocmDSAPool):
    plain_stores_by_host = True


POOLS: dict[str, type] = {"mha": RocmMHAPool, "mla": RocmMLAPool, "dsa": RocmDSAPool}
"""The pool class of each kind."""

BESIDE_HOST: dict[str, type] = {"mha": _MHABesideHost, "mla": _MLABesideHost, "dsa": _DSABesideHost}
"""The same, but stores that SGLang's own kernels also do in one launch are left to SGLang."""
