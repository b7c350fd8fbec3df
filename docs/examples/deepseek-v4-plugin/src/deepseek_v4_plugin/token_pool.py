"""A pool of a kind of its own: the rows of all layers of a token stand side by side.

A page of all layers is then one stretch of memory, which is what goes to the host and back in one copy.
"""

from __future__ import annotations

from typing import ClassVar, NoReturn

import torch

from deepseek_v4_plugin.pool_kind import KIND
from sglang_platform.core import MLATokenToKVPool, counter

__all__ = ["V4TokenPool"]

_rows = counter("deepseek_v4.token_pool.rows")


class V4TokenPool(MLATokenToKVPool):
    """`tokens` [slots, layers, width]; `kv_buffer[layer]` [slots, 1, width] is a view of it."""

    _is_v4_token_pool: ClassVar[bool] = True
    _pool_kind: ClassVar[str] = KIND.name

    def _create_buffers(self) -> None:
        self._create_rows(self.size + self.page_size)

    def _create_rows(self, rows: int) -> None:
        shape = (rows, self.layer_num, self.kv_cache_dim)
        self.tokens = torch.zeros(shape, dtype=self.store_dtype, device=self.device)
        self.kv_buffer = [self.tokens[:, layer : layer + 1] for layer in range(self.layer_num)]

    def _scatter_mla_rows(
        self,
        dst_buffer: torch.Tensor,
        loc: torch.Tensor,
        cache_k_nope: torch.Tensor,
        cache_k_rope: torch.Tensor,
    ) -> None:
        super()._scatter_mla_rows(dst_buffer, loc, cache_k_nope, cache_k_rope)
        _rows.add(loc.numel())

    def get_contiguous_buf_infos(self) -> NoReturn:
        """Asked for by transfer engines, which send a layer's pages: these have the other layers between them."""
        raise NotImplementedError(f"{type(self).__name__} cannot be sent layer by layer")
