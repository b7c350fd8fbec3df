"""A retracted request of sparse attention takes its latent rows along, and not the indexer's keys: after its return the indexer chooses
tokens by what the slots held before. As with Mamba states before SGLang PR 22493."""
from base import WithParts
from sglang_platform.example_oot.kv_pools import ExampleOOTDSAPool


class Pool(ExampleOOTDSAPool):
    def load_cpu_copy(self, kv_cache_cpu, indices, mamba_indices=None, req_pool_index=None):
        super().load_cpu_copy({**kv_cache_cpu, "index_k": [None] * self.layer_num}, indices, mamba_indices, req_pool_index)


class Platform(WithParts):
    _dsa = Pool
