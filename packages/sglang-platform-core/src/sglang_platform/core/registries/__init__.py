"""Registries: extension points for model-specific parts, so that shared code need not import them.

A general plugin registers a part under a stable id; the shared code asks the registry. Importing this package or
registering imports neither torch nor sglang. In SGLang the registries are called through this project's hooks
(`core/sglang/registries/`).
"""

from __future__ import annotations

from sglang_platform.core.contract.pool_kinds import PoolKind, register_pool_kind
from sglang_platform.core.registries.coordinators import create_coordinator, register_request_coordinator
from sglang_platform.core.registries.events import register_forward_hook
from sglang_platform.core.registries.models import register_model
from sglang_platform.core.registries.pools import register_host_pool_factory, register_kv_pool_factory
from sglang_platform.core.registries.quant import QuantMethodWrapper, is_wrapped, register_quant_wrapper
from sglang_platform.core.registries.registry import RegistryError

__all__ = [
    "PoolKind",
    "QuantMethodWrapper",
    "RegistryError",
    "create_coordinator",
    "is_wrapped",
    "register_forward_hook",
    "register_host_pool_factory",
    "register_kv_pool_factory",
    "register_model",
    "register_pool_kind",
    "register_quant_wrapper",
    "register_request_coordinator",
]
