"""The minimal platform with core's parts in plain torch named one by one, which the suite then judges."""

from __future__ import annotations

from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any

from sglang_minimal.platform import MinimalPlatform

from sglang_platform.core import PagedTokenToKVPoolAllocator
from sglang_platform.core.contract.pool_kinds import KINDS
from sglang_platform.core.contract.types import kv_pool_kind
from sglang_platform.core.portable.torch.attention import TorchAttentionBackend


class CorePartsPlatform(MinimalPlatform):
    supported_page_sizes = (1, 16, 64)
    supported_kv_dtypes = ("float32", "bfloat16", "float16", "float8_e4m3fn")
    supported_kv_kinds = tuple(KINDS)
    attention_features = (
        "mha", "gqa", "mqa", "mla", "sliding_window", "logit_cap", "sinks", "encoder", "chunked_prefill",
        "mixed_batch", "fp8_kv", "draft_tree",
    )  # fmt: skip

    def get_attention_backends(self) -> dict[str, Callable[..., Any]]:
        return {"portable_torch": TorchAttentionBackend}

    def get_kv_pool_cls(self, *, kind: str) -> type | None:
        return resolve_name(KINDS[kv_pool_kind(kind)].base)  # type: ignore[no-any-return]

    def get_paged_allocator_cls(self) -> type | None:
        return PagedTokenToKVPoolAllocator
