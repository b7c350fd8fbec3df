"""Level 7 mutants: what only a running SGLang shows. Each needs an engine."""

from __future__ import annotations

from typing import Any

import torch
from mutant import mutant

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
    def free(self, free_index: torch.Tensor) -> None:
        super().free(free_index[: -self.page_size] if free_index.numel() > self.page_size else free_index)


@mutant(
    check="host.aborted_requests_return_their_slots",
    defect="the last page of a request is not freed: the cache shrinks until nothing fits",
    says="slots are available",
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
    def finalize_server_args(self, server_args: Any) -> None:
        super().finalize_server_args(server_args)
        server_args.attention_backend = "torch_native"
