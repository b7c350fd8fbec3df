"""Small pools, allocators, and what is stored in them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sglang_platform.core import (
    MHATokenToKVPool,
    PagedTokenToKVPoolAllocator,
    TokenToKVPoolAllocator,
)

FP8 = [torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz]
DTYPES = [torch.float32, torch.float16, torch.bfloat16, *FP8]

Allocator = TokenToKVPoolAllocator | PagedTokenToKVPoolAllocator


def layer(layer_id: int) -> Any:
    """All that a store reads of an attention layer."""
    return SimpleNamespace(layer_id=layer_id)


def ints(*numbers: int) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int64)


def values(n: int, *shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, *shape, generator=torch.Generator().manual_seed(seed))


def contents(*buffers: torch.Tensor) -> list[torch.Tensor]:
    """A copy of every buffer as bytes, per slot."""
    return [b.clone().view(torch.uint8).reshape(b.shape[0], -1) for b in buffers]


def mha(**changes: Any) -> MHATokenToKVPool:
    arguments: dict[str, Any] = {
        "size": 37,
        "page_size": 4,
        "dtype": torch.float32,
        "head_num": 2,
        "head_dim": 8,
        "layer_num": 2,
        "device": "cpu",
        "enable_memory_saver": False,
    }
    kind = changes.pop("kind", MHATokenToKVPool)
    return kind(**{**arguments, **changes})


def token(size: int = 8, need_sort: bool = False, **attributes: Any) -> TokenToKVPoolAllocator:
    kind = type("Token", (TokenToKVPoolAllocator,), attributes)
    return kind(size, torch.float16, "cpu", None, need_sort)


def paged(
    size: int = 32, page_size: int = 4, need_sort: bool = False, **attributes: Any
) -> PagedTokenToKVPoolAllocator:
    kind = type("Paged", (PagedTokenToKVPoolAllocator,), attributes)
    return kind(size, page_size, torch.float16, "cpu", None, need_sort)


both = pytest.mark.parametrize("make", [token, paged])
either_path = pytest.mark.parametrize("numpy", [True, False])
