"""Healthy: heads outermost, so that a layer's buffer is a permuted, non-contiguous view; transfer engines get a list per head."""
import torch
from base import WithParts
from sglang_platform.example_oot.kv_pools import ExampleOOTMHAPool


class Pool(ExampleOOTMHAPool):
    def _zeros(self, slots, head_dim):
        return torch.zeros((self.head_num, slots, head_dim), dtype=self.store_dtype, device=self.device).permute(1, 0, 2)

    def get_contiguous_buf_infos(self):
        rows = [b[:, h] for buffers in (self.k_buffer, self.v_buffer) for b in buffers for h in range(self.head_num)]
        return self._page_infos(rows)


class Platform(WithParts):
    _mha = Pool
