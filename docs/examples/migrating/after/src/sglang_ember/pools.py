"""Keys and values, stored by Ember's kernel. Slots, scales, casts and copies are core's."""

from sglang_platform.core import MHATokenToKVPool, counter

from . import kernels

_stores = counter("ember.kv_pool.stores")


class EmberPool(MHATokenToKVPool):
    def _store_kv_layer(self, layer_idx, loc, cache_k, cache_v):
        kernels.store_rows(self.k_buffer[layer_idx], loc, cache_k)
        kernels.store_rows(self.v_buffer[layer_idx], loc, cache_v)
        _stores.add()
