"""The kernels that a package hands to the KV pools."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sglang_platform.core.portable.triton.launch import ShapesOf

__all__ = ["PoolKernels"]


@dataclass(frozen=True, kw_only=True)
class PoolKernels:
    """A package's launch wrappers, with the arguments of the existing packages' wrappers.

    store_pair: `(a, b, a_out, b_out, loc, a_scale, b_scale, *, dtype)`, two tensors at rows `loc`, divided and cast.
    store_packed: `(nope, rope, out, loc, *, dtype)`, the packed fp8 rows of sparse MLA.
    shapes_of: the launch shapes of the portable kernels on a device.
    """

    store_pair: Callable[..., None]
    store_packed: Callable[..., None]
    shapes_of: ShapesOf
