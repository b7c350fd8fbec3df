"""The public names of sglang-platform core, bound on first use.

Importing this package imports neither torch nor sglang; each name is imported from its module on first
access. `current_platform` and `current_mm_platform` are the lazy objects of the process: importing them resolves
nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sglang_platform.core.attention.backend import AttentionBackend
    from sglang_platform.core.attention.batch import AttentionLayer, ForwardBatch, ForwardMode
    from sglang_platform.core.attention.diffusion import DiffusionAttention
    from sglang_platform.core.contract.capabilities import PlatformCapabilities
    from sglang_platform.core.contract.device import DeviceMixin
    from sglang_platform.core.contract.mm import MMPlatform
    from sglang_platform.core.contract.srt import SRTPlatform
    from sglang_platform.core.contract.types import CpuArchEnum, DeviceCapability, PlatformEnum
    from sglang_platform.core.contract.version import CONTRACT_VERSION
    from sglang_platform.core.counters import counter
    from sglang_platform.core.discovery.asking import resolve_obj
    from sglang_platform.core.discovery.current import current_mm_platform, current_platform
    from sglang_platform.core.discovery.entry import mm_platform_plugin, platform_plugin
    from sglang_platform.core.errors import PlatformError, PlatformUnavailable
    from sglang_platform.core.graph.runner import GraphRunner
    from sglang_platform.core.hooks.registry import (
        RETURN_NONE,
        HookRegistry,
        HookType,
        plugin_hook,
        sglang_hook,
    )
    from sglang_platform.core.memory.allocator import TokenToKVPoolAllocator
    from sglang_platform.core.memory.dsa import DSATokenToKVPool
    from sglang_platform.core.memory.host_memory import HostMemory
    from sglang_platform.core.memory.memory_saver import MemorySaver
    from sglang_platform.core.memory.mha import MHATokenToKVPool
    from sglang_platform.core.memory.mla import MLATokenToKVPool
    from sglang_platform.core.memory.paged import PagedTokenToKVPoolAllocator
    from sglang_platform.core.memory.req_to_token import ReqToTokenPool
    from sglang_platform.core.ops.fused_op import FusedOp
    from sglang_platform.core.plugins import load_plugins

_HOME = {
    "AttentionBackend": "attention.backend",
    "AttentionLayer": "attention.batch",
    "CONTRACT_VERSION": "contract.version",
    "CpuArchEnum": "contract.types",
    "DSATokenToKVPool": "memory.dsa",
    "DeviceCapability": "contract.types",
    "DeviceMixin": "contract.device",
    "DiffusionAttention": "attention.diffusion",
    "ForwardBatch": "attention.batch",
    "ForwardMode": "attention.batch",
    "FusedOp": "ops.fused_op",
    "GraphRunner": "graph.runner",
    "HookRegistry": "hooks.registry",
    "HookType": "hooks.registry",
    "HostMemory": "memory.host_memory",
    "MemorySaver": "memory.memory_saver",
    "MHATokenToKVPool": "memory.mha",
    "MLATokenToKVPool": "memory.mla",
    "MMPlatform": "contract.mm",
    "PagedTokenToKVPoolAllocator": "memory.paged",
    "PlatformCapabilities": "contract.capabilities",
    "PlatformEnum": "contract.types",
    "PlatformError": "errors",
    "PlatformUnavailable": "errors",
    "RETURN_NONE": "hooks.registry",
    "ReqToTokenPool": "memory.req_to_token",
    "SRTPlatform": "contract.srt",
    "TokenToKVPoolAllocator": "memory.allocator",
    "counter": "counters",
    "current_mm_platform": "discovery.current",
    "current_platform": "discovery.current",
    "load_plugins": "plugins",
    "mm_platform_plugin": "discovery.entry",
    "platform_plugin": "discovery.entry",
    "plugin_hook": "hooks.registry",
    "resolve_obj": "discovery.asking",
    "sglang_hook": "hooks.registry",
}

__all__ = [
    "CONTRACT_VERSION",
    "RETURN_NONE",
    "AttentionBackend",
    "AttentionLayer",
    "CpuArchEnum",
    "DSATokenToKVPool",
    "DeviceCapability",
    "DeviceMixin",
    "DiffusionAttention",
    "ForwardBatch",
    "ForwardMode",
    "FusedOp",
    "GraphRunner",
    "HookRegistry",
    "HookType",
    "HostMemory",
    "MHATokenToKVPool",
    "MLATokenToKVPool",
    "MMPlatform",
    "MemorySaver",
    "PagedTokenToKVPoolAllocator",
    "PlatformCapabilities",
    "PlatformEnum",
    "PlatformError",
    "PlatformUnavailable",
    "ReqToTokenPool",
    "SRTPlatform",
    "TokenToKVPoolAllocator",
    "counter",
    "current_mm_platform",
    "current_platform",
    "load_plugins",
    "mm_platform_plugin",
    "platform_plugin",
    "plugin_hook",
    "resolve_obj",
    "sglang_hook",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
