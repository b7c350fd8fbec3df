"""Keys and values on the card, a row for each token."""

import torch

from sglang_platform.core import MHATokenToKVPool
from sglang_platform.core.memory.rows import cast_rows


class MyAcceleratorKVPool(MHATokenToKVPool):
    supported_dtypes = (torch.bfloat16, torch.float16, torch.float32, torch.float8_e4m3fn)

    def _create_buffers(self):
        rows = self.size + 1  # and the padding slot
        kind = {"dtype": self.store_dtype, "device": self.device}
        self.k_buffer = [
            torch.zeros((rows, self.head_num, self.head_dim), **kind) for _ in range(self.layer_num)
        ]
        self.v_buffer = [
            torch.zeros((rows, self.head_num, self.v_head_dim), **kind) for _ in range(self.layer_num)
        ]

    def set_kv_buffer(self, layer, loc, cache_k, cache_v, k_scale=None, v_scale=None, layer_id_override=None):
        index = self._layer_to_write(layer, layer_id_override)
        loc = loc.reshape(-1)
        cache_k = self._as_rows("cache_k", cache_k, loc, self.head_num, self.head_dim)
        cache_v = self._as_rows("cache_v", cache_v, loc, self.head_num, self.v_head_dim)
        cache_k = self._as_stored(cast_rows(cache_k, self.dtype))
        cache_v = self._as_stored(cast_rows(cache_v, self.dtype))
        self._store_kv_layer(index, loc, cache_k, cache_v)

    def _store_kv_layer(self, layer_idx, loc, cache_k, cache_v):
        self.k_buffer[layer_idx][loc.long()] = cache_k
        self.v_buffer[layer_idx][loc.long()] = cache_v

    def _move_kv_cache_impl(self, tgt_loc, src_loc):
        for target, source in zip(tgt_loc.tolist(), src_loc.tolist()):
            for buffer in (*self.k_buffer, *self.v_buffer):
                buffer[target] = buffer[source]
