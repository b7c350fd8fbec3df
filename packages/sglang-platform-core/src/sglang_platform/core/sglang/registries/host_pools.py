"""Calls the registry's host pool factories where SGLang builds the host-memory pool of hierarchical caching."""

from __future__ import annotations

from functools import partial
from typing import Any

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.registries import pools
from sglang_platform.core.sglang.registration import required
from sglang_platform.core.sglang.served_model import served_model
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]

_BUILDER = "sglang.srt.mem_cache.hybrid_cache.hybrid_pool_assembler:build_kv_host_pool"


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Hook SGLang's builder when the first factory is registered."""
    pools.host_pool_factories.when_first_added(
        lambda: required(
            _BUILDER,
            _build_kv_host_pool,
            HookType.AROUND,
            without="registered host pool factories are not asked",
        )
    )


def _build_kv_host_pool(original: Any, *args: Any, **kwargs: Any) -> Any:
    model = served_model()
    found = pools.resolve_host_pool_factory(model.model_config, model.server_args)
    if found is None:
        return original(*args, **kwargs)
    _, factory = found
    return factory(kwargs.get("kv_pool"), partial(original, *args, **kwargs))
