"""Passes the purpose of a KV pool to platforms that leave some pools to SGLang, before SGLang builds it.

SGLang asks the platform by kind only; its configurator knows the stored dtype and the settled launch arguments. In
SGLang (0.5.22 and 0.5.23, `mem_cache/kv_cache_configurator.py`) a platform's class takes precedence over every other
choice, but some features require SGLang's own class: the platform receives the reason and returns None.
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
    """Register for platforms that keep their CUDA or ROCm identity, if the host asks them; others cannot use SGLang's
    pools."""
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
    """Why this pool must be of SGLang's own class; empty if it need not be."""
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
