"""The indexer's keys of DeepSeek sparse attention, with their scales, page by page.

A page of P tokens is one row of bytes: first the fp8 keys of all its tokens, then the float32 scales of all::

    | P x head_dim bytes | P x head_dim / 128 float32 |

Keys and scales are kept apart so that a kernel loads the keys of a page as one aligned block. The layout is
the one SGLang 0.5.23 and DeepGEMM's paged indexer kernels use.
"""

from __future__ import annotations

import torch

from sglang_platform.core.memory.rows import FP8_DTYPES

__all__ = ["IndexKeyCache"]


class IndexKeyCache:
    """One buffer per layer, uint8 [pages, P * (head_dim + 4 * head_dim / 128)]; no rows in layers without an
    indexer."""

    def __init__(
        self,
        slots: int,
        page_size: int,
        head_dim: int,
        quant_block_size: int,
        layers: list[bool],
        device: torch.device,
    ) -> None:
        """`slots` counts the padding page; `layers[i]`: layer i has an indexer of its own."""
        self.page_size = page_size
        self.head_dim = head_dim
        self.scale_bytes = head_dim // quant_block_size * torch.float32.itemsize
        pages = -(-slots // page_size)
        width = page_size * (head_dim + self.scale_bytes)
        self.buffer = [
            torch.zeros((pages if present else 0, width), dtype=torch.uint8, device=device)
            for present in layers
        ]

    def clear(self) -> None:
        """Release the buffers."""
        self.buffer = []

    def keys(self, layer_index: int) -> torch.Tensor:
        """View of a layer's keys, uint8 [pages, P, head_dim]."""
        keys = self.buffer[layer_index][:, : self.page_size * self.head_dim]
        return keys.view(len(keys), self.page_size, self.head_dim)

    def scales(self, layer_index: int) -> torch.Tensor:
        """View of a layer's scales, the bytes of float32, uint8 [pages, P, 4 * head_dim / 128]."""
        scales = self.buffer[layer_index][:, self.page_size * self.head_dim :]
        return scales.view(len(scales), self.page_size, self.scale_bytes)

    def store(
        self, layer_index: int, loc: torch.Tensor, index_k: torch.Tensor, index_k_scale: torch.Tensor
    ) -> None:
        """Write keys (fp8 or their bytes) [n, head_dim] and float32 scales [n] or [n, head_dim / 128]."""
        keys = index_k.view(torch.uint8) if index_k.dtype in FP8_DTYPES else index_k
        scales = index_k_scale.float().contiguous().view(torch.uint8)
        self.store_bytes(layer_index, loc, keys, scales.reshape(-1, self.scale_bytes))

    def store_bytes(
        self, layer_index: int, loc: torch.Tensor, keys: torch.Tensor, scales: torch.Tensor
    ) -> None:
        """Write what `load` returned."""
        where = self._place(loc)
        self.keys(layer_index)[where] = keys
        self.scales(layer_index)[where] = scales

    def load(self, layer_index: int, loc: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Copies of the bytes of slots `loc` [n]: keys [n, head_dim], scales [n, 4 * head_dim / 128]."""
        where = self._place(loc)
        return self.keys(layer_index)[where], self.scales(layer_index)[where]

    def move(self, tgt_loc: torch.Tensor, src_loc: torch.Tensor) -> None:
        """Copy keys and scales between slots in all layers, as if all were read before any is written."""
        source, target = self._place(src_loc), self._place(tgt_loc)
        for layer_index, buffer in enumerate(self.buffer):
            if buffer.shape[0]:
                for part in (self.keys(layer_index), self.scales(layer_index)):
                    part[target] = part[source]

    def _place(self, loc: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        loc = loc.reshape(-1).long()
        return loc // self.page_size, loc % self.page_size
