"""The record of an architecture: the launch shapes of a package's kernels, on which the wrappers depend."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sglang_platform.core.portable.triton.architecture import Architecture, ByHead, Launch

__all__ = ["DecodeShape", "ExtendShape", "IndexShape", "KernelRecord"]


@dataclass(frozen=True, kw_only=True)
class _Loop:
    """A kernel that walks over keys: the warps of a program, and the pipeline stages of its loop."""

    warps: int
    stages: int

    def options(self) -> dict[str, Any]:
        """For the compiler. A package's shape adds what only its backend knows."""
        return {"num_warps": self.warps, "num_stages": self.stages}


@dataclass(frozen=True, kw_only=True)
class DecodeShape(_Loop):
    """block_n: tokens of a block. block_h: the most query heads of a program. waves: the programs per processor that
    splitting aims at."""

    block_n: int
    block_h: int
    waves: int = 2


@dataclass(frozen=True, kw_only=True)
class ExtendShape(_Loop):
    """block_m, block_n: queries and keys of a block."""

    block_m: int
    block_n: int


@dataclass(frozen=True, kw_only=True)
class IndexShape(_Loop):
    """block_n: keys of a block. tile: consecutive new tokens that share one read of the keys."""

    block_n: int
    tile: int = 1


@dataclass(frozen=True, kw_only=True)
class KernelRecord(Architecture):
    """converts_fp8: the 8-bit formats to which one instruction converts float32, rounding to nearest even; others take
    integer arithmetic. store: rows into a KV pool. quantise: `elements` per warp, and the most warps."""

    converts_fp8: tuple[str, ...]
    store: Launch
    quantise: Launch
    decode: ByHead[DecodeShape]
    extend: ByHead[ExtendShape]
    index: IndexShape
    index_runs: IndexShape

    def decode_shape(
        self, dim: int, *, latent: bool, eight_bit: bool, float32: bool, packed: bool = False
    ) -> DecodeShape:
        """The shape for heads of `dim` columns. eight_bit: the cache is 8-bit. packed: its rows contain scales.

        float32: the queries are float32.
        """
        if float32:
            # Twice the bytes per element, and no matrix unit to feed.
            return replace(self.decode.choose(dim, latent), block_n=16, block_h=16, stages=1)
        if packed and self.decode.latent_packed is not None:
            return self.decode.latent_packed
        return self.decode.choose(dim, latent, eight_bit)

    def extend_shape(self, dim: int, *, latent: bool, widened: bool, float32: bool) -> ExtendShape:
        """`widened`: 8-bit codes are widened in integer arithmetic, which takes registers from the accumulator."""
        if float32:
            # As above. The latent shape is the one that leaves a program the most registers.
            return replace(self.extend.latent, block_m=16, block_n=16, warps=4, stages=1)
        shape = self.extend.choose(dim, latent)
        return replace(shape, block_m=64) if widened and shape.block_m > 64 else shape

    def index_shape(self, *, runs: bool, float32: bool) -> IndexShape:
        """The shape of the indexer's kernel. runs: the new tokens of a request are consecutive."""
        shape = self.index_runs if runs else self.index
        return replace(shape, block_n=16, warps=4) if float32 else shape
