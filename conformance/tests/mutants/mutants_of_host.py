"""Level 7 mutants: what only a running SGLang shows. Each needs an engine."""

from __future__ import annotations

from typing import Any

import torch
from mutant import mutant

from sglang_platform.core import PlatformCapabilities
from sglang_platform.example_oot.allocator import ExampleOOTPagedAllocator
from sglang_platform.example_oot.kv_pools import ExampleOOTMHAPool
from sglang_platform.example_oot.platform import ExampleOOTPlatform


class _KeysAsValues(ExampleOOTMHAPool):
    def _store_kv_layer(
        self, layer_idx: int, loc: torch.Tensor, cache_k: torch.Tensor, cache_v: torch.Tensor
    ) -> None:
        super()._store_kv_layer(layer_idx, loc, cache_k, cache_k)


@mutant(
    check="host.tokens_equal_transformers",
    defect="the store kernel is given the keys twice: SGLang serves fluently, and everything it says is wrong",
    says="transformers gives",
    host="sglang",
)
class StoresKeysAsValues(ExampleOOTPlatform):
    def get_kv_pool_cls(self, *, kind: str) -> Any:
        return _KeysAsValues if kind == "mha" else None


class _NoKeywords(ExampleOOTMHAPool):
    def __init__(
        self, size: int, page_size: int, dtype: Any, head_num: int, head_dim: int, layer_num: int
    ) -> None:
        super().__init__(size, page_size, dtype, head_num, head_dim, layer_num, "cpu", False)


@mutant(
    check="host.engine_starts",
    defect="the pool's constructor does not take the keywords with which SGLang builds it",
    says="unexpected keyword argument",
    host="sglang",
)
class PoolWithoutHostKeywords(ExampleOOTPlatform):
    def get_kv_pool_cls(self, *, kind: str) -> Any:
        return _NoKeywords if kind == "mha" else None


class _LosesAPage(ExampleOOTPagedAllocator):
    def free_segment(self, free_index: torch.Tensor, *, start_pos: int) -> None:
        whole = free_index.numel() // self.page_size * self.page_size
        super().free_segment(free_index[:whole], start_pos=start_pos)


@mutant(
    check="host.aborted_requests_return_their_slots",
    defect="a page that is not full is not freed: the cache shrinks until nothing fits",
    says="leak",
    host="sglang",
)
class LeaksPages(ExampleOOTPlatform):
    def get_paged_allocator_cls(self) -> Any:
        return _LosesAPage


@mutant(
    check="host.platforms_parts_serve",
    defect="the attention backend is registered, and another one left in the server arguments: it never runs",
    says="the engine uses",
    host="sglang",
)
class BackendNeverChosen(ExampleOOTPlatform):
    capabilities = PlatformCapabilities(fp8=True)  # the other backend captures no graphs

    def finalize_server_args(self, server_args: Any) -> None:
        super().finalize_server_args(server_args)
        server_args.attention_backend = "torch_native"
