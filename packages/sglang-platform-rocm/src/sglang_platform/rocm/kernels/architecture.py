"""The record of an AMD architecture: everything that the launch wrappers of this package decide by.

CDNA has 512 registers per lane and little LDS, so what decode has in flight lives in registers: the stages of a loop
are few, and the waves per SIMD decide how many registers a wave may use. A matrix instruction takes 16 rows, since the
groups of heads in GQA are that small; with 32 half of each product would be padding.

A wave has 64 lanes, so 4 waves load 4 KiB at once, and 4096 bf16 elements are two loads.

The numbers in `tuning/` were chosen to fit registers and LDS without spills (see the generated table of kernels); none
was timed on a device yet. LDS per workgroup and 8-bit conversions: AMD's instruction set manuals of CDNA2, 3 and 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sglang_platform.core.portable.triton.architecture import Architecture, ByHead, Launch

__all__ = ["RocmArchitecture", "RocmDecodeShape", "RocmExtendShape", "RocmIndexShape"]

_ROWS_PER_MATRIX_INSTRUCTION = 16


@dataclass(frozen=True, kw_only=True)
class RocmDecodeShape:
    """Tokens of a block, most query heads of a program, waves of a program, pipeline stages, programs per compute unit
    that splitting aims at, and how many waves a SIMD is to hold at once."""

    block_n: int
    block_h: int
    warps: int
    stages: int
    waves: int = 2
    waves_per_eu: int = 2

    def options(self) -> dict[str, Any]:
        """For the compiler."""
        return {
            "num_warps": self.warps,
            "num_stages": self.stages,
            "matrix_instr_nonkdim": _ROWS_PER_MATRIX_INSTRUCTION,
            "waves_per_eu": self.waves_per_eu,
        }


@dataclass(frozen=True, kw_only=True)
class RocmExtendShape:
    """Queries and keys of a block, waves of a program, pipeline stages, and how many waves a SIMD is to hold."""

    block_m: int
    block_n: int
    warps: int
    stages: int
    waves_per_eu: int

    def options(self) -> dict[str, Any]:
        """For the compiler."""
        return {
            "num_warps": self.warps,
            "num_stages": self.stages,
            "matrix_instr_nonkdim": _ROWS_PER_MATRIX_INSTRUCTION,
            "waves_per_eu": self.waves_per_eu,
        }


@dataclass(frozen=True, kw_only=True)
class RocmIndexShape:
    """Keys of a block, waves of a program, pipeline stages."""

    block_n: int
    warps: int
    stages: int

    def options(self) -> dict[str, Any]:
        """For the compiler."""
        return {
            "num_warps": self.warps,
            "num_stages": self.stages,
            "matrix_instr_nonkdim": _ROWS_PER_MATRIX_INSTRUCTION,
        }


@dataclass(frozen=True, kw_only=True)
class RocmArchitecture(Architecture):
    """converts_fp8: the 8-bit formats that one instruction makes from float32, rounding to nearest even; others take
    integer arithmetic. e4m3: which of the two e4m3 formats a cache is given here. store, move: rows into a KV pool
    and within one. quantise: `elements` per wave, and the most waves. decode_latent_fp8: absorbed MLA over an 8-bit
    cache, where widened rows and the codes of the next ones do not both fit the registers."""

    backend: str = "hip"
    warp: int = 64
    converts_fp8: tuple[str, ...]
    e4m3: str
    store: Launch
    move: Launch
    quantise: Launch
    decode: ByHead[RocmDecodeShape]
    decode_latent_fp8: RocmDecodeShape
    extend: ByHead[RocmExtendShape]
    index: RocmIndexShape
