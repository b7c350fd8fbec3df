"""A pool for one architecture: core's, with a count of the rows it stores."""

from __future__ import annotations

import torch

from sglang_platform.core import MHATokenToKVPool, counter

_rows = counter("registries_plugin.pool.rows")


class CountedPool(MHATokenToKVPool):
    def _store_kv_layer(
        self, layer_idx: int, loc: torch.Tensor, cache_k: torch.Tensor, cache_v: torch.Tensor
    ) -> None:
        super()._store_kv_layer(layer_idx, loc, cache_k, cache_v)
        _rows.add(loc.numel())
