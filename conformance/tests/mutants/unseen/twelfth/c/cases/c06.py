"""Latent pools: all layers in one storage, rows stored in their two parts, and an index key cache of its own in one
storage as well. The pool of keys and values is core's class itself, unchanged.

Permitted by: MLATokenToKVPool (`_create_buffers()` "sets `self.kv_buffer`, a list with one tensor per layer";
`_scatter_mla_rows` "writes rows of one layer"), DSATokenToKVPool ("`_create_index_key_cache()`, which returns an object
with `buffer` (one tensor per layer) and the methods of `IndexKeyCache`"), SRTPlatform.get_kv_pool_cls ("The answer
subclasses core's pool of that kind": a class is a subclass of itself).

level: memory
"""

from __future__ import annotations

import importlib
from types import MappingProxyType
from typing import Any

import torch
from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core import DSATokenToKVPool, MLATokenToKVPool
from sglang_platform.core.memory.index_keys import IndexKeyCache


class _OneStorage:
    """Before a pool of latent rows: where its rows lie, and how they get there."""

    def _create_buffers(self: Any) -> None:
        whole = self._zeros(self.layer_num, self.size + self.page_size, 1, self.kv_cache_dim)
        self.kv_buffer = list(whole.unbind(0))

    def _scatter_mla_rows(
        self,
        dst_buffer: torch.Tensor,
        loc: torch.Tensor,
        cache_k_nope: torch.Tensor,
        cache_k_rope: torch.Tensor,
    ) -> None:
        split = cache_k_nope.shape[-1]
        loc = loc.long()
        dst_buffer[..., :split].index_copy_(0, loc, cache_k_nope)
        if cache_k_rope.shape[-1]:
            dst_buffer[..., split:].index_copy_(0, loc, cache_k_rope)


class _OneStorageOfKeys(IndexKeyCache):
    """The indexer's keys: the layers that have some are parts of one tensor."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        counts = [one.numel() for one in self.buffer]
        if sum(counts):
            whole = torch.zeros(sum(counts), dtype=torch.uint8, device=self.buffer[0].device)
            self.buffer = [
                part.view(one.shape) for part, one in zip(whole.split(counts), self.buffer, strict=True)
            ]


class _LatentPool(_OneStorage, MLATokenToKVPool):
    """MLA."""


class _SparsePool(_OneStorage, DSATokenToKVPool):
    """DSA."""

    def _create_index_key_cache(self) -> IndexKeyCache:
        return _OneStorageOfKeys(
            slots=self.index_buf_size + self.page_size,
            page_size=self.index_page_size,
            head_dim=self.index_head_dim,
            quant_block_size=self.quant_block_size,
            layers=[not skipped for skipped in self.skip_topk_layers],
            device=torch.device(self.device),
        )


_PLACES = MappingProxyType(
    {
        "mha": ("sglang_platform.core", "MHATokenToKVPool"),
        "mla": (__name__, "_LatentPool"),
        "dsa": (__name__, "_SparsePool"),
    }
)


class Platform(ReferencePlatform):
    """Pools by the table above."""

    supported_kv_kinds = _PLACES.keys()

    def get_kv_pool_cls(self, *, kind: str) -> type | None:
        module, name = _PLACES[kind]
        return getattr(importlib.import_module(module), name)
