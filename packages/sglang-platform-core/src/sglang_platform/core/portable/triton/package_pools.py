"""The pools of a package: core's, on the package's kernels, with the types that it stores."""

from __future__ import annotations

import torch

from sglang_platform.core.portable.triton.pool_kernels import PoolKernels
from sglang_platform.core.portable.triton.pools import TritonDSAPool, TritonMHAPool, TritonMLAPool

__all__ = ["package_pools"]

_BASES: dict[str, type] = {"mha": TritonMHAPool, "mla": TritonMLAPool, "dsa": TritonDSAPool}


def package_pools(
    module: str, prefix: str, kernels: PoolKernels, stored: tuple[torch.dtype, ...]
) -> tuple[dict[str, type], dict[str, type]]:
    """The class of each kind, `PREFIXMHAPool` of the package's `module`; and the same, but stores that the host's own
    kernels also do in one launch are left to the host."""
    whole, beside_host, fields = {}, {}, {"__module__": module}
    for kind, base in _BASES.items():
        name = f"{prefix}{kind.upper()}Pool"
        whole[kind] = type(name, (base,), {**fields, "kernels": kernels, "supported_dtypes": stored})
        beside_host[kind] = type(
            f"{name}BesideHost", (whole[kind],), {**fields, "plain_stores_by_host": True}
        )
    return whole, beside_host
