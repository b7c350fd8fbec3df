"""Keys and values in Aurora's memory."""

import torch
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool


class AuroraMHATokenToKVPool(MHATokenToKVPool):
    def _create_buffers(self):
        shape = (self.size + self.page_size, self.head_num, self.head_dim)
        self.k_buffer = [torch.zeros(shape, dtype=self.store_dtype) for _ in range(self.layer_num)]
        self.v_buffer = [torch.zeros(shape, dtype=self.store_dtype) for _ in range(self.layer_num)]

    def get_key_buffer(self, layer_id):
        return self.k_buffer[layer_id - self.start_layer]

    def get_value_buffer(self, layer_id):
        return self.v_buffer[layer_id - self.start_layer]

    def get_kv_buffer(self, layer_id):
        return self.get_key_buffer(layer_id), self.get_value_buffer(layer_id)

    def get_kv_size_bytes(self):
        rows = sum(one.nbytes for one in self.k_buffer)
        return rows, rows

    def set_kv_buffer(self, layer, loc_info, cache_k, cache_v, k_scale=None, v_scale=None, *args, **kwargs):
        loc = getattr(loc_info, "loc", loc_info)
        self.get_key_buffer(layer.layer_id)[loc] = cache_k
        self.get_value_buffer(layer.layer_id)[loc] = cache_v

    def get_contiguous_buf_infos(self):
        buffers = [*self.k_buffer, *self.v_buffer]
        pointers = [one.data_ptr() for one in buffers]
        lengths = [one.nbytes for one in buffers]
        items = [one[0].nbytes * self.page_size for one in buffers]
        return pointers, lengths, items
