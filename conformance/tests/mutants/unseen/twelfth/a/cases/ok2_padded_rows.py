"""Healthy: a row of the MHA pool is padded in memory to the next 32 elements and 32 more, so that a slot begins on a line
of its own. The buffers are views [slots, heads, dim] whose slots do not lie side by side; the bytes counted are those
allocated, and the addresses for a transfer engine name whole padded rows.
level: memory
"""

from __future__ import annotations

import torch

from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.conformance.reference.pools import ReferenceMHAPool
from sglang_platform.conformance.reference.rows import storage
from sglang_platform.core.contract.types import kv_pool_kind

LINE = 32


class MHAPool(ReferenceMHAPool):
    def _create_buffers(self):
        self._padded = []
        self.k_buffer = self._views(self.head_dim)
        self.v_buffer = self._views(self.v_head_dim)

    def _views(self, width):
        slots, row = self.size + self.page_size, self.head_num * width
        pitch = -(-row // LINE) * LINE + LINE
        views = []
        for _ in range(self.layer_num):
            whole = torch.zeros((slots, pitch), dtype=storage(self.dtype), device=self.device)
            self._padded.append(whole)
            views.append(whole[:, :row].unflatten(1, (self.head_num, width)))
        return views

    def get_kv_size_bytes(self):
        n = self.layer_num
        return sum(w.nbytes for w in self._padded[:n]), sum(w.nbytes for w in self._padded[n:])

    def get_contiguous_buf_infos(self):
        whole = self._padded
        return (
            [w.data_ptr() for w in whole],
            [w.nbytes for w in whole],
            [w[0].nbytes * self.page_size for w in whole],
        )


class Platform(ReferencePlatform):
    def get_kv_pool_cls(self, *, kind):
        return MHAPool if kv_pool_kind(kind) == "mha" else super().get_kv_pool_cls(kind=kind)
