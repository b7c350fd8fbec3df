"""get_mla_kv_buffer(), which prefill over a cached prefix calls, reads a layer without waiting for its transfer (memory_pool.py:4475)."""
from base import WithParts
from sglang_platform.example_oot.kv_pools import ExampleOOTMLAPool


class Pool(ExampleOOTMLAPool):
    def get_mla_kv_buffer(self, layer, loc, dst_dtype=None):
        counter, self.layer_transfer_counter = self.layer_transfer_counter, None
        try:
            return super().get_mla_kv_buffer(layer, loc, dst_dtype)
        finally:
            self.layer_transfer_counter = counter


class Platform(WithParts):
    _mla = Pool
