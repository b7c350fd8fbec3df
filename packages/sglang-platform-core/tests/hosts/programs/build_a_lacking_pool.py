"""Shows that a kind of pool which the platform lacks is refused when it is built, not when it is asked for."""

import pytest
from sglang.srt.mem_cache.memory_pool import MLATokenToKVPool

from sglang_platform.core import current_platform as ours
from sglang_platform.core.errors import HostError
from sglang_platform.example_oot.platform import ExampleOOTPlatform


def lacking(self, *, kind):
    raise NotImplementedError("no MLA on this device")


ExampleOOTPlatform.get_kv_pool_cls = lacking
pool = ours.get_kv_pool_cls(kind="mla")
assert issubclass(pool, MLATokenToKVPool)
with pytest.raises(HostError) as refusal:
    pool(size=64, page_size=16)
assert "kind 'mla'" in str(refusal.value)
assert "no MLA on this device" in str(refusal.value)
assert refusal.value.plugin.name == "example_oot"
