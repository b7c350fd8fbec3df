"""Level 9 mutants: devices whose server does not outlive what clients send. Each needs a server."""

from __future__ import annotations

from typing import Any

import torch
from mutant import mutant

from sglang_platform.example_oot.kv_pools import ExampleOOTMHAPool
from sglang_platform.example_oot.platform import ExampleOOTPlatform

_MOST = 300


class _RefusesLongStores(ExampleOOTMHAPool):
    def _store_kv_layer(
        self, layer_idx: int, loc: torch.Tensor, cache_k: torch.Tensor, cache_v: torch.Tensor
    ) -> None:
        if loc.numel() > _MOST:
            raise RuntimeError(f"the store kernel takes {_MOST} tokens")
        super()._store_kv_layer(layer_idx, loc, cache_k, cache_v)


@mutant(
    check="features.hostile_requests",
    defect="the store kernel raises above 300 tokens: one client with a longer prompt ends the server for all",
    says="ended",
    host="sglang",
)
class EndsByALongPrompt(ExampleOOTPlatform):
    def get_kv_pool_cls(self, *, kind: str) -> Any:
        return _RefusesLongStores if kind == "mha" else None


class _HalvesValues(ExampleOOTMHAPool):
    def _store_kv_layer(
        self, layer_idx: int, loc: torch.Tensor, cache_k: torch.Tensor, cache_v: torch.Tensor
    ) -> None:
        super()._store_kv_layer(layer_idx, loc, cache_k, cache_v * (0.5 if loc.numel() == 20 else 1.0))


@mutant(
    check="features.hostile_requests_to_an_engine",
    defect="20 tokens stored at once lose half of their values: right requests get wrong tokens beside refused ones",
    says="other tokens",
    host="sglang",
)
class WrongBesideRefusedRequests(ExampleOOTPlatform):
    def get_kv_pool_cls(self, *, kind: str) -> Any:
        return _HalvesValues if kind == "mha" else None
