"""The KV pools for NVIDIA GPUs: core's pools on this package's kernels, with the types they store."""

from __future__ import annotations

import torch

from sglang_platform.core.portable.triton.pool_kernels import PoolKernels
from sglang_platform.core.portable.triton.pools import TritonDSAPool, TritonMHAPool, TritonMLAPool
from sglang_platform.cuda.kernels.hardware import store_packed, store_pair
from sglang_platform.cuda.kernels.tuning import ARCHITECTURES

__all__ = ["BESIDE_HOST", "POOLS", "STORED", "CudaDSAPool", "CudaMHAPool", "CudaMLAPool"]

STORED = (
    torch.bfloat16,
    torch.float16,
    torch.float32,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
)
"""The element types that these pools store."""


_KERNELS = PoolKernels(
    store_pair=store_pair,
    store_packed=store_packed,
    shapes_of=ARCHITECTURES.shapes,
)


class CudaMHAPool(TritonMHAPool):
    """Keys and values per head."""

    kernels = _KERNELS
    supported_dtypes = STORED


class CudaMLAPool(TritonMLAPool):
    """One latent row per token."""

    kernels = _KERNELS
    supported_dtypes = STORED


class CudaDSAPool(TritonDSAPool):
    """Latent rows and the indexer's keys."""

    kernels = _KERNELS
    supported_dtypes = STORED


class _MHABesideHost(CudaMHAPool):
    plain_stores_by_host = True


class _MLABesideHost(CudaMLAPool):
    plain_stores_by_host = True


class _DSABesideHost(CudaDSAPool):
    plain_stores_by_host = True


POOLS: dict[str, type] = {"mha": CudaMHAPool, "mla": CudaMLAPool, "dsa": CudaDSAPool}
"""The pool class of each kind."""

BESIDE_HOST: dict[str, type] = {"mha": _MHABesideHost, "mla": _MLABesideHost, "dsa": _DSABesideHost}
"""The same, but stores that SGLang's own kernels also do in one launch are left to SGLang."""
