"""The reference platform: it declares everything the suite can check, and has a part for each."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from sglang_platform.conformance.reference.device import ReferenceDevice
from sglang_platform.core import PlatformCapabilities, SRTPlatform
from sglang_platform.core.contract.attention_features import FEATURES
from sglang_platform.core.contract.pool_kinds import KINDS
from sglang_platform.core.contract.types import kv_pool_kind

__all__ = ["ReferencePlatform"]

# Imports inside functions: the parts need torch, the platform class does not.

NAME = "reference"

_LEFT_OUT = ("cross_attention", "draft_tree", "sparse")


class ReferencePlatform(SRTPlatform, ReferenceDevice):
    """SGLang on the reference device. Parts are imported where they are asked for: they need torch, the class does
    not."""

    capabilities = PlatformCapabilities(graph_capture=True, fp8=True)
    supported_kv_dtypes = ("float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2")
    supported_page_sizes = (1, 4, 16)
    supported_kv_kinds = tuple(KINDS)
    attention_features = tuple(word for word in FEATURES if word not in _LEFT_OUT)

    def get_default_attention_backend(self) -> str:
        return NAME

    def get_attention_backends(self) -> dict[str, Callable[..., Any]]:
        from sglang_platform.conformance.reference.attention import ReferenceAttention

        return {NAME: ReferenceAttention}

    def get_kv_pool_cls(self, *, kind: str) -> type | None:
        from sglang_platform.conformance.fixtures.pool_kinds import FIXTURES

        module, _, name = FIXTURES[kv_pool_kind(kind)].reference.partition(":")
        return getattr(importlib.import_module(module, __package__), name)  # type: ignore[no-any-return]

    def get_paged_allocator_cls(self) -> type | None:
        from sglang_platform.conformance.reference.allocator import ReferencePagedAllocator

        return ReferencePagedAllocator

    def get_graph_runner_cls(self) -> type | None:
        from sglang_platform.conformance.reference.graph_runner import ReferenceGraphRunner

        return ReferenceGraphRunner

    def get_full_graph_backend_cls(self) -> type | None:
        from sglang_platform.conformance.reference.graph_runner import ReferenceFullGraphBackend

        return ReferenceFullGraphBackend

    def get_communicator_class(self) -> type | None:
        from sglang_platform.conformance.reference.communicator import ReferenceCommunicator

        return ReferenceCommunicator

    def get_dispatch_key_name(self) -> str:
        return NAME

    def get_compile_backend(self, mode: str | None = None) -> str:
        return "eager"

    def init_backend(self) -> None:
        from sglang_platform.conformance.reference import ops

        ops.register(NAME)
