"""Block sizes of the extend kernel for each architecture.

Extend is bound by the matrix units where prompts are long: a block of BLOCK_M queries reuses every key BLOCK_M times,
and the scores of a block, BLOCK_M * BLOCK_N float32, stay in registers beside an accumulator of BLOCK_M * Dv. The
numbers were chosen to fit registers and shared memory without spills (see the generated table of kernels); none was
timed on a device yet.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from sglang_platform.core.torch_cuda.kernels.target import Target

__all__ = ["ExtendTuning", "extend_tuning"]


@dataclass(frozen=True)
class ExtendTuning:
    """Queries and keys per block, warps, pipeline stages."""

    block_m: int
    block_n: int
    warps: int
    stages: int

    def options(self, target: Target) -> dict[str, Any]:
        """Compiler options."""
        options: dict[str, Any] = {"num_warps": self.warps, "num_stages": self.stages}
        if target.is_hip:
            options |= {
                "matrix_instr_nonkdim": 16,
                "waves_per_eu": 1 if self.block_m * self.warps >= 512 else 2,
            }
        return options


# By width of the head: up to 64, 128, 256 columns, and absorbed MLA.
_TABLES: dict[str, dict[str, ExtendTuning]] = {
    "sm_80": {
        "64": ExtendTuning(128, 64, 8, 3),
        "128": ExtendTuning(128, 32, 8, 2),
        "256": ExtendTuning(64, 32, 8, 2),
        "latent": ExtendTuning(32, 32, 8, 2),
    },
    # 99 KiB of shared memory.
    "sm_89": {
        "64": ExtendTuning(128, 64, 8, 2),
        "128": ExtendTuning(128, 32, 8, 2),
        "256": ExtendTuning(64, 32, 8, 1),
        "latent": ExtendTuning(16, 16, 4, 1),
    },
    # wgmma takes 64 rows per warp group of 4 warps.
    "sm_90": {
        "64": ExtendTuning(128, 128, 8, 3),
        "128": ExtendTuning(128, 64, 8, 3),
        "256": ExtendTuning(128, 32, 8, 2),
        "latent": ExtendTuning(64, 32, 8, 2),
    },
    "sm_100": {
        "64": ExtendTuning(128, 128, 8, 3),
        "128": ExtendTuning(128, 64, 8, 3),
        "256": ExtendTuning(128, 32, 8, 2),
        "latent": ExtendTuning(16, 32, 4, 2),
    },
    "sm_120": {
        "64": ExtendTuning(128, 64, 8, 2),
        "128": ExtendTuning(128, 32, 8, 2),
        "256": ExtendTuning(64, 32, 8, 1),
        "latent": ExtendTuning(16, 16, 4, 1),
    },
    # 64 KiB of LDS, 512 registers per lane.
    "gfx90a": {
        "64": ExtendTuning(128, 64, 4, 1),
        "128": ExtendTuning(128, 32, 8, 1),
        "256": ExtendTuning(64, 32, 8, 1),
        "latent": ExtendTuning(16, 16, 8, 1),
    },
    "gfx942": {
        "64": ExtendTuning(128, 64, 4, 1),
        "128": ExtendTuning(128, 64, 8, 1),
        "256": ExtendTuning(64, 32, 8, 1),
        "latent": ExtendTuning(16, 16, 8, 1),
    },
    "gfx950": {
        "64": ExtendTuning(128, 64, 4, 2),
        "128": ExtendTuning(128, 64, 8, 2),
        "256": ExtendTuning(64, 32, 8, 2),
        "latent": ExtendTuning(16, 16, 8, 2),
    },
}
_NEAREST = {"sm_86": "sm_89", "sm_87": "sm_89", "sm_103": "sm_100", "sm_110": "sm_100", "sm_121": "sm_120"}
_UNKNOWN = {"cuda": "sm_89", "hip": "gfx90a"}


def extend_tuning(target: Target, dim: int, latent: bool, widens: bool, dtype: torch.dtype) -> ExtendTuning:
    """The block sizes for heads of `dim` columns on `target`. `widens`: 8-bit codes are widened in integer arithmetic,
    which takes registers from the accumulator."""
    name = _NEAREST.get(target.name, target.name)
    table = _TABLES.get(name) or _TABLES[_UNKNOWN["hip" if target.is_hip else "cuda"]]
    chosen = table["latent" if latent else "64" if dim <= 64 else "128" if dim <= 128 else "256"]
    if dtype == torch.float32:
        # Twice the bytes per element, and no matrix unit to feed.
        return ExtendTuning(16, 16, 4, 1)
    if widens and chosen.block_m > 64:
        return replace(chosen, block_m=64)
    return chosen
