"""Copies of slots to the CPU go into a staging buffer of the pool that is made once and grows, and what get_cpu_copy()
answers are views of it. A request that is retracted while another one's copy still waits overwrites that copy, and the first
comes back with the second's keys. One retraction at a time is right.
follows: no report looked up; the kind is a pinned staging buffer that is used again too early
level: memory
"""

from __future__ import annotations

import torch

from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.conformance.reference.pools import ReferenceMHAPool
from sglang_platform.core.contract.types import kv_pool_kind


class Pool(ReferenceMHAPool):
    def get_cpu_copy(self, indices, mamba_indices=None, req_pool_index=None):
        buffers, count = self._buffers(), indices.numel()
        staging = getattr(self, "_staged_rows", None)
        if staging is None or len(staging[0]) < count:
            staging = [torch.empty((count, *b.shape[1:]), dtype=b.dtype) for b in buffers]
            self._staged_rows = staging
        for rows, buffer in zip(staging, buffers, strict=True):
            rows[:count].copy_(buffer[indices])
        return [rows[:count] for rows in staging]


class Platform(ReferencePlatform):
    def get_kv_pool_cls(self, *, kind):
        return Pool if kv_pool_kind(kind) == "mha" else super().get_kv_pool_cls(kind=kind)
