"""Healthy: all buffers of a pool are views of one flat allocation, values before keys, with a scratch row block behind
them that get_kv_size_bytes() counts in, as it must where more is allocated than the lists. MHA, MLA.
level: memory
"""

from __future__ import annotations

import math

import torch

from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.conformance.reference.pools import ReferenceMHAPool, ReferenceMLAPool
from sglang_platform.conformance.reference.rows import storage
from sglang_platform.core.contract.types import kv_pool_kind

SCRATCH = 1024


def _cut(slab, shapes):
    at, parts = 0, []
    for shape in shapes:
        count = math.prod(shape)
        parts.append(slab[at : at + count].view(shape))
        at += count
    return parts


class MHAPool(ReferenceMHAPool):
    def _create_buffers(self):
        slots, n = self.size + self.page_size, self.layer_num
        shapes = [(slots, self.head_num, self.v_head_dim)] * n + [(slots, self.head_num, self.head_dim)] * n
        total = sum(map(math.prod, shapes)) + SCRATCH
        self._slab = torch.zeros(total, dtype=storage(self.dtype), device=self.device)
        parts = _cut(self._slab, shapes)
        self.v_buffer, self.k_buffer = parts[:n], parts[n:]
        self._scratch_rows = self._slab[total - SCRATCH :]

    def get_kv_size_bytes(self):
        keys, values = super().get_kv_size_bytes()
        return keys + self._scratch_rows.nbytes, values


class MLAPool(ReferenceMLAPool):
    def _create_buffers(self):
        slots = self.size + self.page_size
        self._slab = torch.zeros(
            (self.layer_num, slots, 1, self.kv_cache_dim), dtype=storage(self.dtype), device=self.device
        )
        self.kv_buffer = list(self._slab.unbind(0))


class Platform(ReferencePlatform):
    def get_kv_pool_cls(self, *, kind):
        own = {"mha": MHAPool, "mla": MLAPool}.get(kv_pool_kind(kind))
        return own or super().get_kv_pool_cls(kind=kind)
