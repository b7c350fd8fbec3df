"""Platforms with which nothing is wrong, each unlike the reference in one thing that devices differ in."""

from __future__ import annotations

from typing import Any

import healthy_parts as parts
import healthy_pools as pools

from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core import PlatformCapabilities

UNLIKE: dict[str, type] = {}
"""By name: what it has, as the class of the part says."""


def _named(cls: type, name: str) -> type:
    UNLIKE[name] = cls
    return cls


def _with_pools(name: str, **by_kind: type) -> None:
    class Platform(ReferencePlatform):
        def get_kv_pool_cls(self, *, kind: str) -> type | None:
            return by_kind.get(kind) or super().get_kv_pool_cls(kind=kind)

        def get_attention_backends(self) -> dict[str, Any]:
            return {self.get_default_attention_backend(): parts.OverLayouts}

    _named(Platform, name)


def _with(name: str, **answers: Any) -> None:
    """The reference with other answers: `factory=answer`."""
    _named(
        type(name, (ReferencePlatform,), {f: (lambda self, a=a: a) for f, a in answers.items()}),
        name,
    )


for _pool in (
    pools.Paged,
    pools.AscendPaged,
    pools.AscendFia,
    pools.HeadsFirst,
    pools.PagedHeadsFirst,
    pools.ByHeadsForTransfer,
    pools.Padded,
    pools.PaddedInside,
    pools.RowsRoundedUp,
    pools.Flat,
    pools.Interleaved,
    pools.OneSlab,
    pools.Vectors,
    pools.Columns,
):
    _with_pools(_pool.__name__, mha=_pool)
_with_pools("PagedLatent", mla=pools.PagedLatent, dsa=pools.PagedSparse)
_with_pools("SplitLatent", mla=pools.SplitLatent)

for _attention in (parts.OfThreeDimensions, parts.ByMetadata):
    _with(_attention.__name__, get_attention_backends={"reference": _attention})
for _allocator in (parts.LikeTheNPUs, parts.HighestFirst, parts.InNoOrder):
    _with(_allocator.__name__, get_paged_allocator_cls=_allocator)
for _runner in (parts.ExactSizes, parts.FewSizes, parts.OneSize, parts.OwnBuckets):
    _with(_runner.__name__, get_graph_runner_cls=_runner)


class LargePages(ReferencePlatform):
    """Pages of 256 tokens, and of one."""

    supported_page_sizes = (1, 256)


class HugePagesOnly(ReferencePlatform):
    """Nothing but pages of 256 tokens, and the int32 slots of SGLang's NPU allocator."""

    supported_page_sizes = (256,)

    def get_paged_allocator_cls(self) -> type | None:
        return parts.LikeTheNPUs


class LargePagesHeadsFirst(ReferencePlatform):
    """Pages of 64 and 128 tokens, laid out by heads."""

    supported_page_sizes = (64, 128)
    supported_kv_kinds = ("mha",)

    def get_kv_pool_cls(self, *, kind: str) -> type | None:
        return pools.PagedHeadsFirst if kind == "mha" else None

    def get_attention_backends(self) -> dict[str, Any]:
        return {self.get_default_attention_backend(): parts.OverLayouts}


class BfloatOnly(ReferencePlatform):
    """One dtype, no pages, no graphs, MHA only."""

    capabilities = PlatformCapabilities()
    supported_kv_dtypes = ("bfloat16",)
    supported_page_sizes = (1,)
    supported_kv_kinds = ("mha",)
    attention_features = ("mha", "gqa")

    def get_kv_pool_cls(self, *, kind: str) -> type | None:
        return pools.BfloatRows if kind == "mha" else None

    def get_attention_backends(self) -> dict[str, Any]:
        return {self.get_default_attention_backend(): parts.OverLayouts}

    def get_paged_allocator_cls(self) -> type | None:
        return None

    def get_graph_runner_cls(self) -> type | None:
        return None


class HalfAndFp8(ReferencePlatform):
    """float16 and one fp8, with keys and values of all layers in one slab."""

    supported_kv_dtypes = ("float16", "float8_e5m2")
    supported_kv_kinds = ("mha",)

    def get_kv_pool_cls(self, *, kind: str) -> type | None:
        return pools.HalfAndFp8Slab if kind == "mha" else None

    def get_attention_backends(self) -> dict[str, Any]:
        return {self.get_default_attention_backend(): parts.OverLayouts}


class LatentOnly(ReferencePlatform):
    """No pool of keys and values by heads."""

    supported_kv_kinds = ("mla", "dsa")
    attention_features = ("mla",)

    def get_kv_pool_cls(self, *, kind: str) -> type | None:
        return None if kind == "mha" else super().get_kv_pool_cls(kind=kind)


for _platform in (LargePages, HugePagesOnly, LargePagesHeadsFirst, BfloatOnly, HalfAndFp8, LatentOnly):
    _named(_platform, _platform.__name__)


def __getattr__(name: str) -> type:
    """So that each is `healthy_platforms:NAME`, for the command line."""
    if name in UNLIKE:
        return UNLIKE[name]
    raise AttributeError(name)
