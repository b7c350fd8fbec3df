"""Shows that a pool built with the host's keywords stores through the vendor's."""

from types import SimpleNamespace

import sglang.srt.platforms  # noqa: F401 -- the host is in the process before core asks for a platform
import torch

from sglang_platform.core import current_platform as ours
from sglang_platform.core.counters import snapshot

pool = ours.get_kv_pool_cls(kind="mha")(
    size=64,
    page_size=16,
    dtype=torch.float32,
    head_num=2,
    head_dim=8,
    layer_num=3,
    device="cpu",
    enable_memory_saver=False,
    start_layer=4,
    end_layer=6,
)
loc = torch.tensor([17, 40, 79])
k, v = torch.randn(3, 2, 8), torch.randn(3, 2, 8)
pool.set_kv_buffer(SimpleNamespace(layer_id=5), loc, k, v)
assert torch.equal(pool.get_key_buffer(5)[loc], k)
assert torch.equal(pool.get_value_buffer(5)[loc], v)
assert not pool.get_key_buffer(4).any()
assert not pool.get_key_buffer(6).any()
assert snapshot()["example_oot.kv_pool.stores"] == 1
ptrs, lens, item_lens = pool.get_contiguous_buf_infos()  # descriptors the vendor did not have to build
assert len(ptrs) == 6
assert lens[0] == 80 * 2 * 8 * 4
assert item_lens[0] == 16 * 2 * 8 * 4
assert pool.get_kv_size_bytes() == (3 * 80 * 2 * 8 * 4,) * 2
