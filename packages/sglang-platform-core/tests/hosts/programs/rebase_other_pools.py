"""Shows that MLA and DSA pools are re-based on the host's and refuse types that they do not store, and that `dict` is
refused by name."""

from types import SimpleNamespace

import pytest
import sglang.srt.mem_cache.memory_pool as host_pools
import torch
from sglang.srt.runtime_context import get_parallel

from sglang_platform.core import DSATokenToKVPool, MLATokenToKVPool
from sglang_platform.core.errors import HostError, PlatformError, PluginOrigin
from sglang_platform.core.sglang.parts import rebase_pool

origin = PluginOrigin("my_device", "my-dist", "1.2")
created = []


class MyMLA(MLATokenToKVPool):
    def _create_buffers(self):
        created.append(self.kv_lora_rank)
        super()._create_buffers()


class MyDSA(DSATokenToKVPool):
    pass


class OfOneType(MLATokenToKVPool):
    supported_dtypes = (torch.bfloat16,)


mla, dsa = rebase_pool(MyMLA, "mla", origin), rebase_pool(MyDSA, "dsa", origin)
assert issubclass(mla, host_pools.MLATokenToKVPool)
assert issubclass(dsa, host_pools.DSATokenToKVPool)
given = {
    "size": 64,
    "page_size": 16,
    "dtype": torch.float32,
    "kv_lora_rank": 8,
    "qk_rope_head_dim": 4,
    "layer_num": 2,
    "device": "cpu",
    "enable_memory_saver": False,
}
pool = mla(**given)
assert created == [8]
assert len(pool.kv_buffer) == 2
rows = torch.randn(2, 1, 12)
with get_parallel().override(dcp_enabled=False, attn_dcp_size=1):  # what an engine publishes before it stores
    pool.set_kv_buffer(SimpleNamespace(layer_id=1), torch.tensor([3, 70]), rows, rows[..., :8])
assert torch.equal(pool.get_key_buffer(1)[[3, 70]], rows)

narrow = rebase_pool(OfOneType, "mla", origin)
assert len(narrow(**{**given, "dtype": torch.bfloat16}).kv_buffer) == 2
with pytest.raises(PlatformError, match=r"OfOneType: dtype torch\.float32 is not supported"):
    narrow(**given)

with pytest.raises(HostError) as refusal:
    rebase_pool(dict, "mha", origin)
for part in ("get_kv_pool_cls(kind='mha') answered <class 'dict'>", "my_device (my-dist 1.2)", "fix:"):
    assert part in str(refusal.value), refusal.value
