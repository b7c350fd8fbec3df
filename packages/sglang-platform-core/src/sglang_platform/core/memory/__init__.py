"""Base classes for the memory of the engine: KV pools, allocators, the request table.

    kv_cache.py       what every KV pool shares
    mha.py mla.py dsa.py   the pools by kind of attention
    index_keys.py     the DSA indexer's keys and scales, page by page
    packed_fp8.py     the DSA row format with one scale per 128 values
    rows.py           copying rows in and out of a buffer
    req_to_token.py   request -> slots
    allocator.py paged.py  who owns which slot; base_allocator.py is what both share
    free_list.py      the free ids themselves
    page_arithmetic.py  slots of an extend and of a decode step

All of it runs without SGLang, on any torch device. In the host each class is re-based on the host's of the
same name. Importing this package does not import torch; a name does when it is first touched.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sglang_platform.core.memory.allocator import TokenToKVPoolAllocator
    from sglang_platform.core.memory.dsa import DSATokenToKVPool
    from sglang_platform.core.memory.host_memory import HostMemory
    from sglang_platform.core.memory.mha import MHATokenToKVPool
    from sglang_platform.core.memory.mla import MLATokenToKVPool
    from sglang_platform.core.memory.paged import PagedTokenToKVPoolAllocator
    from sglang_platform.core.memory.req_to_token import ReqToTokenPool

__all__ = [
    "DSATokenToKVPool",
    "HostMemory",
    "MHATokenToKVPool",
    "MLATokenToKVPool",
    "PagedTokenToKVPoolAllocator",
    "ReqToTokenPool",
    "TokenToKVPoolAllocator",
]

_HOME = {
    "DSATokenToKVPool": "dsa",
    "HostMemory": "host_memory",
    "MHATokenToKVPool": "mha",
    "MLATokenToKVPool": "mla",
    "PagedTokenToKVPoolAllocator": "paged",
    "ReqToTokenPool": "req_to_token",
    "TokenToKVPoolAllocator": "allocator",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
