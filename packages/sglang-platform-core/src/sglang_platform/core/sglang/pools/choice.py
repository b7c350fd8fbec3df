"""What SGLang is about to build a KV pool for, told to a platform that leaves some pools to SGLang.

The host asks by kind only. What a pool stores, and what else of the launch has been settled, its configurator knows.
In SGLang (0.5.22 and 0.5.23, `mem_cache/kv_cache_configurator.py`) a platform's class goes before every other choice,
and some features take SGLang's own class only: there the platform is told why, and answers None.
"""

from __future__ import annotations

from typing import Any

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.host import PoolAsked, active_host
from sglang_platform.core.sglang.host_classes import load
from sglang_platform.core.sglang.pools.kinds import host_pool
from sglang_platform.core.sglang.registration import required
from sglang_platform.core.sglang.served_model import served_model
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["only_the_hosts", "register_hooks"]

_SWITCHES = "sglang.srt.environ:envs"
_ASKS = "sglang.srt.mem_cache.kv_cache_configurator:KVCacheConfigurator._resolve_kv_pool_class"


def register_hooks(platform: Any, host: HostFacts) -> None:
    """For platforms that keep their CUDA or ROCm identity, where the host asks them: others have no other pools."""
    if host.asks_every_platform and not platform.is_out_of_tree():
        required(
            _ASKS,
            _tell,
            HookType.AROUND,
            without="the platform's pool serves features that take SGLang's class only",
        )


def _tell(original: Any, configurator: Any, *, kind: str, default: type) -> Any:
    host = active_host()
    assert host is not None
    stored = str(configurator.kv_cache_dtype).removeprefix("torch.")
    host.pool_asked = PoolAsked(stored, only_the_hosts(configurator, kind, default))
    try:
        return original(configurator, kind=kind, default=default)
    finally:
        host.pool_asked = None


def only_the_hosts(configurator: Any, kind: str, default: type) -> str:
    """Why this pool must be of the host's own class, empty where it need not."""
    if default is not host_pool(kind):
        return f"the launch asks for the layout of {default.__name__}"
    if configurator.kv_shard_rank is not None:
        return "--enable-kv-cache-sharding builds on SGLang's own class, and asserts it"
    if configurator.mambaish_config is not None:
        return (
            "in hybrid models fused sparse attention and external cache linkers take SGLang's own class only"
        )
    arguments = served_model().server_args
    if arguments is not None and arguments.enable_torch_compile:
        return "torch.compile traces the model through SGLang's own stores"
    if load(_SWITCHES).SGLANG_ENABLE_ASYNC_ASSERT.get():
        return "SGLANG_ENABLE_ASYNC_ASSERT checks the slots in SGLang's own stores"
    if configurator.is_draft_worker:
        return "a draft model's pool holds few layers, and the hierarchical cache of an NVFP4 target takes SGLang's own"
    return ""
