"""Rows of a KV pool to page-locked host memory, without waiting for each one.

The layout is that of `KVCache.get_cpu_copy`: [layer][chunk][buffer]. Copies to page-locked memory are asynchronous, so
one wait at the end covers all of them. `KVCache.load_cpu_copy` brings them back.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

__all__ = ["Saved", "save_rows"]

Saved = list[list[list[torch.Tensor]]]
Layers = Sequence[Sequence[torch.Tensor]]


def save_rows(layers: Layers, chunks: Sequence[torch.Tensor]) -> Saved:
    """Rows `chunks` of every buffer of every layer, in page-locked memory; complete when this returns."""
    saved = [
        [[_to_host(buffer.index_select(0, chunk)) for buffer in layer] for chunk in chunks]
        for layer in layers
    ]
    for device in {chunk.device.type for chunk in chunks}:
        torch.get_device_module(device).current_stream().synchronize()
    return saved


def _to_host(rows: torch.Tensor) -> torch.Tensor:
    return torch.empty(rows.shape, dtype=rows.dtype, pin_memory=True).copy_(rows, non_blocking=True)
