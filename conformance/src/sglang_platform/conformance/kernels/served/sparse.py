"""Launches of the kernels of sparse attention, for compiling without a device; see `decode.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from sglang_platform.conformance.kernels.served.launches import Launches

__all__ = ["index_launches", "select_launches"]

_CONTEXT = 131072


def _rows(tokens: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    table = torch.empty(tokens + 1, _CONTEXT, dtype=torch.int32)
    return table, torch.empty(tokens, dtype=torch.int64), torch.empty(tokens, dtype=torch.int64)


def _index(index_logits: Callable[..., Any], eight_bit: torch.dtype, tokens: int, runs: bool) -> None:
    table, rows, lengths = _rows(tokens)
    index_logits(
        torch.empty(tokens, 64, 128, dtype=torch.bfloat16),
        torch.empty(tokens, 64),
        torch.empty(1 << 15, 64 * 132, dtype=torch.uint8),
        table,
        rows,
        lengths,
        page_size=64,
        width=_CONTEXT,
        key_dtype=eight_bit,
        runs=runs,
    )


def index_launches(index_logits: Callable[..., Any], eight_bit: torch.dtype) -> Launches:
    """See `KernelDeclaration.launches`."""
    return {
        "64 heads x 128, decode": lambda: _index(index_logits, eight_bit, 32, False),
        "64 heads x 128, prefill": lambda: _index(index_logits, eight_bit, 256, True),
    }


def _select(top_slots: Callable[..., Any]) -> None:
    table, rows, lengths = _rows(32)
    top_slots(torch.empty(32, _CONTEXT), table, rows, lengths, topk=2048)


def select_launches(top_slots: Callable[..., Any]) -> Launches:
    """See `KernelDeclaration.launches`."""
    return {"2048 of 131072": lambda: _select(top_slots)}
