"""The pools of a package: core's, on the package's kernels, with the types that it stores."""

from __future__ import annotations

import torch

from sglang_platform.core.portable.triton.pool_kernels import PoolKernels
from sglang_platform.core.portable.triton.pools import TritonDSAPool, TritonMHAPool, TritonMLAPool

__all__ = ["package_pools"]

_BASES: dict[str, type] = {"mha": TritonMHAPool, "mla": TritonMLAPool, "dsa": TritonDSAPool}


def package_pools(
    module: str, prefix: str, kernels: PoolKernels, stored: tuple[torch.dtype, ...]
) -> dict[str, type]:
    """The class of each kind, `PREFIXMHAPool` of the package's `module`."""
    fields = {"__module__": module, "kernels": kernels, "supported_dtypes": stored}
    return {kind: type(f"{prefix}{kind.upper()}Pool", (base,), fields) for kind, base in _BASES.items()}
