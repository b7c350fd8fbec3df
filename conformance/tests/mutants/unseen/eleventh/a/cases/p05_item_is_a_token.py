"""For transfer engines: the bytes of an item are those of a token, not of a page (memory_pool_npu.py has both branches: FIA multiplies by
page_size). Prefill/decode disaggregation then sends the first token of each page (disaggregation/decode.py:638)."""
from base import WithParts
from sglang_platform.example_oot.kv_pools import ExampleOOTMHAPool


class Pool(ExampleOOTMHAPool):
    def get_contiguous_buf_infos(self):
        addresses, sizes, items = super().get_contiguous_buf_infos()
        return addresses, sizes, [item // self.page_size for item in items]


class Platform(WithParts):
    _mha = Pool
