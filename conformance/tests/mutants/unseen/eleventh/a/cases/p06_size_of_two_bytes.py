"""The size of the pool is computed with two bytes per element, whatever the type: twice too large for fp8, half of it for float32.
The host sizes its cache in host memory by it (hybrid_pool_assembler.py:1324)."""
from base import WithParts
from sglang_platform.example_oot.kv_pools import ExampleOOTMHAPool


class Pool(ExampleOOTMHAPool):
    def get_kv_size_bytes(self):
        rows = (self.size + self.page_size) * self.layer_num * 2
        return rows * self.head_num * self.head_dim, rows * self.head_num * self.v_head_dim


class Platform(WithParts):
    _mha = Pool
