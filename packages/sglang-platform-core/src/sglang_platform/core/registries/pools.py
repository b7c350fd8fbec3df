"""KV pools and host pools for particular models.

A platform returns one pool class per kind. A model that needs another pool (a custom layout, mixed precision) registers
a factory with a predicate; the first factory whose predicate holds overrides the platform's class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sglang_platform.core.registries.registry import Registry

__all__ = [
    "host_pool_factories",
    "kv_pool_factories",
    "register_host_pool_factory",
    "register_kv_pool_factory",
    "resolve_host_pool_factory",
    "resolve_kv_pool_factory",
]

Predicate = Callable[[Any, Any], bool]
Found = tuple[str, Callable[..., Any]] | None


@dataclass(frozen=True)
class _Factory:
    predicate: Predicate
    build: Callable[..., Any]


kv_pool_factories: Registry[_Factory] = Registry("kv_pool_factories", "KV pool factory")
host_pool_factories: Registry[_Factory] = Registry("host_pool_factories", "host pool factory")


def register_kv_pool_factory(
    id: str, predicate: Predicate, factory: Callable[[str], type | None], priority: int = 100
) -> None:
    """Use the pool class that `factory(kind)` returns if `predicate(model_config, server_args)` holds.

    `kind` is what the host asks for: `mha`, `mla` or `dsa`. The class derives from core's pool of that kind, or says by
    `_pool_kind` which registered kind it is; None leaves this kind to the platform. Of several factories whose
    predicates hold, the one of the lowest priority wins (then by id).
    """
    kv_pool_factories.add(id, _Factory(predicate, factory), priority)


def register_host_pool_factory(
    id: str, predicate: Predicate, factory: Callable[[Any, Callable[[], Any]], Any], priority: int = 100
) -> None:
    """Let `factory(kv_pool, build)` return the host-memory pool behind `kv_pool`, for hierarchical caching.

    `build()` creates the host's own pool. Selection and order as for `register_kv_pool_factory`.
    """
    host_pool_factories.add(id, _Factory(predicate, factory), priority)


def resolve_kv_pool_factory(model_config: Any, server_args: Any) -> Found:
    """The id and the factory for this model, or None."""
    return _first(kv_pool_factories, model_config, server_args)


def resolve_host_pool_factory(model_config: Any, server_args: Any) -> Found:
    """The id and the factory for this model, or None."""
    return _first(host_pool_factories, model_config, server_args)


def _first(entries: Registry[_Factory], model_config: Any, server_args: Any) -> Found:
    for entry in entries:
        if entries.call(entry, "predicate", entry.part.predicate, model_config, server_args):
            return entry.id, entry.part.build
    return None
