"""The kernels that a package hands to the KV pools."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from sglang_platform.core.portable.triton.architecture import LaunchShapes
from sglang_platform.core.portable.triton.buffer_table import BufferTable

__all__ = ["PoolKernels"]


@dataclass(frozen=True, kw_only=True)
class PoolKernels:
    """Launch wrappers, with the arguments that these of the packages have.

    store_pair: `(a, b, a_out, b_out, loc, a_scale, b_scale, *, dtype)`, two tensors at rows `loc`, divided and cast.
    store_packed: `(nope, rope, out, loc, *, dtype)`, the packed fp8 rows of sparse MLA.
    move: `(table, tgt, src)`, rows between slots in every buffer of a table, as if all were read before any is written.
    most_rows: the most rows that `move` takes.
    shapes_of: the launch shapes of the portable kernels on a device.
    """

    store_pair: Callable[..., None]
    store_packed: Callable[..., None]
    move: Callable[[BufferTable, torch.Tensor, torch.Tensor], None]
    most_rows: int
    shapes_of: Callable[[torch.device], LaunchShapes]
