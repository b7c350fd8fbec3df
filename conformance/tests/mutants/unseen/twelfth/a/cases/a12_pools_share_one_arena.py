"""Buffers are cut from an arena of the process, kept by the shape of a row, and every pool starts at its beginning. A
process with one pool is right. A model with a pool of its own for sliding windows (two MHA pools of one row shape), or a
draft model beside its target, has two pools over the same memory: each store of one overwrites slots of the other.
follows: no report looked up; the kind is a cached workspace that two owners share
level: memory
"""

from __future__ import annotations

import torch

from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.conformance.reference.pools import ReferenceMHAPool
from sglang_platform.core.contract.types import kv_pool_kind

from sglang_platform.conformance.reference.rows import storage

_ARENA: dict = {}


class Pool(ReferenceMHAPool):
    def _create_buffers(self):
        self.k_buffer = self._from_arena("k", self.head_dim)
        self.v_buffer = self._from_arena("v", self.v_head_dim)

    def _from_arena(self, name, width):
        rows = self.size + self.page_size
        key = name, self.head_num, width, self.dtype, str(self.device)
        slab = _ARENA.get(key)
        if slab is None or slab.shape[0] < self.layer_num or slab.shape[1] < rows:
            shape = (self.layer_num, rows, self.head_num, width)
            slab = _ARENA[key] = torch.zeros(shape, dtype=storage(self.dtype), device=self.device)
        buffers = [slab[layer, :rows] for layer in range(self.layer_num)]
        for buffer in buffers:
            buffer.zero_()
        return buffers


class Platform(ReferencePlatform):
    def get_kv_pool_cls(self, *, kind):
        return Pool if kv_pool_kind(kind) == "mha" else super().get_kv_pool_cls(kind=kind)
