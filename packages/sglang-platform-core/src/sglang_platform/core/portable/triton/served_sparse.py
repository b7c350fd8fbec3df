"""Launches of the kernels of sparse attention, for compiling without a device; see `launches_decode`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from sglang_platform.core.torch_cuda.kernels.dsa_index import index_logits
from sglang_platform.core.portable.triton.top_slots import top_slots
from sglang_platform.core.torch_cuda.kernels.launches_decode import native_fp8

__all__ = ["index_launches", "select_launches"]

_CONTEXT = 131072


def _rows(tokens: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    table = torch.empty(tokens + 1, _CONTEXT, dtype=torch.int32)
    return table, torch.empty(tokens, dtype=torch.int64), torch.empty(tokens, dtype=torch.int64)


def _index(dtype: torch.dtype) -> None:
    table, rows, lengths = _rows(32)
    index_logits(
        torch.empty(32, 64, 128, dtype=dtype),
        torch.empty(32, 64),
        torch.empty(1 << 15, 64 * 132, dtype=torch.uint8),
        table,
        rows,
        lengths,
        page_size=64,
        width=_CONTEXT,
        key_dtype=native_fp8(),
    )


def index_launches() -> Mapping[str, Callable[[], None]]:
    """See `KernelDeclaration.launches`."""
    return {"64 heads x 128": lambda: _index(torch.bfloat16)}


def _select() -> None:
    table, rows, lengths = _rows(32)
    top_slots(torch.empty(32, _CONTEXT), table, rows, lengths, topk=2048)


def select_launches() -> Mapping[str, Callable[[], None]]:
    """See `KernelDeclaration.launches`."""
    return {"2048 of 131072": _select}
