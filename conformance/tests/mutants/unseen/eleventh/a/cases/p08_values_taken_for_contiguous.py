"""The store kernel walks the values as if they were contiguous; in SGLang they are the last part of a fused qkv product, and strided.
vllm-ascend PR 95: "add value.contiguous to avoid some accuracy problems"."""
from base import WithParts
from sglang_platform.example_oot.kv_pools import ExampleOOTMHAPool


class Pool(ExampleOOTMHAPool):
    def _store_kv_layer(self, layer_idx, loc, cache_k, cache_v):
        n, heads, dim = cache_v.shape
        if not cache_v.is_contiguous() and cache_v.untyped_storage().nbytes() // cache_v.itemsize - cache_v.storage_offset() >= cache_v.numel():
            cache_v = cache_v.as_strided((n, heads, dim), (heads * dim, dim, 1))
        super()._store_kv_layer(layer_idx, loc, cache_k, cache_v)


class Platform(WithParts):
    _mha = Pool
