"""The registry's KV pool factories: platforms of ours call them directly, SGLang's own platform through a hook."""

from __future__ import annotations

import logging
from typing import Any

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.registries import pools
from sglang_platform.core.sglang.pools.rebased import rebase_pool
from sglang_platform.core.sglang.rebase import is_rebased
from sglang_platform.core.sglang.registration import required
from sglang_platform.core.sglang.served_model import served_model
from sglang_platform.core.sglang.versions import HostFacts, since

__all__ = ["register_hooks", "registered_pool_cls"]

_logger = logging.getLogger(__name__)


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Hook SGLang's own platform when the first factory is registered."""
    if not is_rebased(platform):
        pools.kv_pool_factories.when_first_added(lambda: _hook_platform(platform, host))


def registered_pool_cls(kind: str) -> type | None:
    """The pool class of this kind that a registered factory returns for the served model, or None."""
    model = served_model()
    if model.model_config is None:
        return None
    found = pools.resolve_kv_pool_factory(model.model_config, model.server_args)
    if found is None:
        return None
    cls: type | None = found[1](kind)
    return cls


def _hook_platform(platform: Any, host: HostFacts) -> None:
    if not host.asks_every_platform:
        _logger.warning(
            "KV pool factories are registered, and do nothing: SGLang %s asks only out-of-tree platforms for a pool, "
            "and none of sglang-platform runs; %s and later ask every platform",
            host.version,
            since("asks_every_platform"),
        )
        return
    cls = type(platform)
    target = f"{cls.__module__}:{cls.__qualname__}.get_kv_pool_cls"
    required(target, _get_kv_pool_cls, HookType.AROUND, without="registered KV pool factories are not asked")


def _get_kv_pool_cls(original: Any, platform: Any, *, kind: str) -> Any:
    cls = registered_pool_cls(kind)
    if cls is None:
        return original(platform, kind=kind)
    return rebase_pool(cls, kind, None, triton=platform.capabilities.supports_triton)
