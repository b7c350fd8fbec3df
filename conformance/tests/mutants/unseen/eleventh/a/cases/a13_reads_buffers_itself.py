"""The backend takes the pool's buffers from its lists, past get_key_buffer(): nothing waits for a layer that the hierarchical cache is
still loading (memory_pool.py:2857 wait_until)."""
from base import WithParts
from sglang_platform.example_oot.attention import ExampleOOTAttentionBackend


class Backend(ExampleOOTAttentionBackend):
    def _store(self, k, v, layer, forward_batch, save_kv_cache):
        pool = self.token_to_kv_pool
        if not hasattr(pool, "k_buffer") or not hasattr(pool, "_as_dtype"):
            return super()._store(k, v, layer, forward_batch, save_kv_cache)
        counter, pool.layer_transfer_counter = pool.layer_transfer_counter, None
        try:
            return super()._store(k, v, layer, forward_batch, save_kv_cache)  # reads k_buffer[layer - start_layer]
        finally:
            pool.layer_transfer_counter = counter


class Platform(WithParts):
    _backend = Backend
