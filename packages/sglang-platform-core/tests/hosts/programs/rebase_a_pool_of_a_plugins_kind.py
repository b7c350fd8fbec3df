"""Shows that a pool of a kind that a plugin registered is re-based on the class which the kind names, whatever kind the
host asked for, and keeps its tags."""

from dataclasses import replace

import pytest
import sglang.srt.mem_cache.memory_pool as host_pools

from sglang_platform.core import MLATokenToKVPool
from sglang_platform.core.contract.pool_kinds import KINDS
from sglang_platform.core.errors import HostError
from sglang_platform.core.registries import register_pool_kind
from sglang_platform.core.sglang.parts import rebase_pool
from sglang_platform.core.sglang.pools.kinds import host_pool

HOSTS = "sglang.srt.mem_cache.memory_pool:MLATokenToKVPool"


class OwnPool(MLATokenToKVPool):
    _pool_kind = "own"
    _is_own_pool = True


with pytest.raises(ValueError, match="'own' is not a kind of KV pool"):
    rebase_pool(OwnPool, "mha", None)
register_pool_kind(replace(KINDS["mla"], name="own", row="latent rows", older_names=()))
register_pool_kind(replace(KINDS["mha"], name="named", row="rows", older_names=(), host_class=HOSTS))
register_pool_kind(replace(KINDS["mha"], name="nobodys", row="rows", older_names=(), base="builtins:object"))
assert host_pool("own") is host_pool("named") is host_pools.MLATokenToKVPool
with pytest.raises(HostError, match="no pool class for the kind 'nobodys'"):
    host_pool("nobodys")
pool = rebase_pool(OwnPool, "mha", None)
assert issubclass(pool, host_pools.MLATokenToKVPool)
assert pool is not OwnPool
assert pool._is_own_pool
