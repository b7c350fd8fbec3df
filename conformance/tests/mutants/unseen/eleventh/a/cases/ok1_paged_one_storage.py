"""Healthy: all layers in one allocation [layers, pages, page, heads, dim], as the NPU pool (memory_pool_npu.py)."""
import torch
from base import WithParts
from sglang_platform.example_oot import kv_pools


class Pool(kv_pools.ExampleOOTMHAPool):
    def _create_buffers(self):
        pages = -(-(self.size + self.page_size) // self.page_size)

        def layers(dim):
            whole = torch.zeros((self.layer_num, pages, self.page_size, self.head_num, dim), dtype=self.store_dtype, device=self.device)
            return [whole[i] for i in range(self.layer_num)]

        self.k_buffer, self.v_buffer = layers(self.head_dim), layers(self.v_head_dim)

    def _tokens(self, pages):
        return pages.view(-1, *pages.shape[2:])[: self.size + self.page_size]

    def _slot_buffers(self, layer_index):
        return [self._tokens(self.k_buffer[layer_index]), self._tokens(self.v_buffer[layer_index])]

    def get_key_buffer(self, layer_id):
        return self._as_dtype(self._tokens(self.k_buffer[self._layer_to_read(layer_id)]))

    def get_value_buffer(self, layer_id):
        return self._as_dtype(self._tokens(self.v_buffer[self._layer_to_read(layer_id)]))

    def _store_kv_layer(self, layer_idx, loc, cache_k, cache_v):
        kv_pools._store(cache_k, cache_v, *self._slot_buffers(layer_idx), loc)

    def _move_kv_cache_impl(self, tgt_loc, src_loc):
        for layer in range(self.layer_num):
            for buffer in self._slot_buffers(layer):
                buffer[tgt_loc] = buffer[src_loc]


class Platform(WithParts):
    _mha = Pool
