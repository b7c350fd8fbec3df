"""Block sizes of the decode kernel for each architecture.

Decode reads the cache once and computes little, so what counts is bytes in flight: enough stages of BLOCK_N rows in
shared memory (or registers, on AMD) to cover the latency, and enough programs to fill the device. A stage holds
BLOCK_N * (D + Dv) elements, for absorbed MLA BLOCK_N * D. The numbers were chosen to fit each architecture's shared
memory and registers without spills (see the generated table of kernels); none was timed on a device yet.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from sglang_platform.core.torch_cuda.kernels.target import Target

__all__ = ["DecodeTuning", "decode_tuning", "split_count"]


@dataclass(frozen=True)
class DecodeTuning:
    """block_h: most query heads of a program. waves: programs per processor that `split_count` aims at."""

    block_n: int
    block_h: int
    warps: int
    stages: int
    waves: int = 2

    def options(self, target: Target) -> dict[str, Any]:
        """Compiler options."""
        options: dict[str, Any] = {"num_warps": self.warps, "num_stages": self.stages}
        if target.is_hip:
            # 16 rows of heads per matrix instruction: the groups of GQA are that small.
            options |= {"matrix_instr_nonkdim": 16, "waves_per_eu": 2 if self.waves > 1 else 1}
        return options


# By width of the head: up to 64, 128, 256 columns, and absorbed MLA.
_TABLES: dict[str, dict[str, DecodeTuning]] = {
    # A100: 163 KiB, cp.async.
    "sm_80": {
        "64": DecodeTuning(128, 32, 4, 3),
        "128": DecodeTuning(64, 32, 4, 3),
        "256": DecodeTuning(32, 32, 4, 3),
        "latent": DecodeTuning(32, 16, 4, 3),
    },
    # Ada: 99 KiB.
    "sm_89": {
        "64": DecodeTuning(64, 32, 4, 3),
        "128": DecodeTuning(32, 32, 4, 3),
        "256": DecodeTuning(32, 16, 4, 2),
        "latent": DecodeTuning(32, 16, 4, 2),
    },
    # Hopper: 227 KiB; a group of 64 heads would be one wgmma, which MLA has.
    "sm_90": {
        "64": DecodeTuning(128, 64, 4, 3),
        "128": DecodeTuning(64, 64, 4, 4),
        "256": DecodeTuning(64, 64, 4, 3),
        "latent": DecodeTuning(32, 64, 8, 2, waves=1),
    },
    # Blackwell, data centre: 227 KiB, twice Hopper's bandwidth to cover.
    "sm_100": {
        "64": DecodeTuning(128, 64, 4, 4),
        "128": DecodeTuning(64, 64, 4, 4),
        "256": DecodeTuning(64, 64, 4, 3),
        "latent": DecodeTuning(32, 16, 4, 3, waves=2),
    },
    # Blackwell, workstation: 99 KiB.
    "sm_120": {
        "64": DecodeTuning(64, 32, 4, 3),
        "128": DecodeTuning(32, 32, 4, 3),
        "256": DecodeTuning(32, 16, 4, 2),
        "latent": DecodeTuning(32, 16, 8, 2),
    },
    # CDNA: 64 KiB of LDS and 512 registers per lane: stages live in registers.
    "gfx90a": {
        "64": DecodeTuning(64, 16, 4, 2),
        "128": DecodeTuning(32, 16, 4, 2),
        "256": DecodeTuning(16, 16, 4, 2),
        "latent": DecodeTuning(16, 16, 4, 1, waves=1),
    },
    "gfx942": {
        "64": DecodeTuning(64, 16, 4, 2),
        "128": DecodeTuning(64, 16, 4, 2),
        "256": DecodeTuning(32, 16, 4, 2),
        "latent": DecodeTuning(16, 16, 4, 1, waves=1),
    },
    # CDNA4: 160 KiB of LDS.
    "gfx950": {
        "64": DecodeTuning(128, 16, 4, 2),
        "128": DecodeTuning(64, 16, 4, 2),
        "256": DecodeTuning(32, 16, 4, 2),
        "latent": DecodeTuning(32, 16, 4, 2, waves=1),
    },
}
_NEAREST = {"sm_86": "sm_89", "sm_87": "sm_89", "sm_103": "sm_100", "sm_110": "sm_100", "sm_121": "sm_120"}
# Fits the smallest shared memory of all.
_UNKNOWN = {"cuda": "sm_89", "hip": "gfx90a"}

# Fewer tokens than this are not worth a program and its share of the merge.
_TOKENS_PER_SPLIT = 256
_MOST_SPLITS = 64


def decode_tuning(
    target: Target, dim: int, latent: bool, eight_bit: bool, dtype: torch.dtype
) -> DecodeTuning:
    """The block sizes for heads of `dim` columns on `target`."""
    name = _NEAREST.get(target.name, target.name)
    table = _TABLES.get(name) or _TABLES[_UNKNOWN["hip" if target.is_hip else "cuda"]]
    chosen = table["latent" if latent else "64" if dim <= 64 else "128" if dim <= 128 else "256"]
    if dtype == torch.float32:
        # Twice the bytes per element, and no matrix unit to feed.
        return DecodeTuning(16, 16, chosen.warps, 1, chosen.waves)
    if latent and eight_bit and target.is_hip:
        # Widened rows and the codes of the next ones do not both fit the registers, nor do 32 widened packed rows.
        return replace(chosen, stages=1, block_n=16)
    return chosen


def split_count(target: Target, programs: int, tokens: int, tuning: DecodeTuning) -> int:
    """In how many parts to read each sequence of up to `tokens`, where `programs` are there without splitting."""
    wanted = -(-tuning.waves * target.processors // max(1, programs))
    return max(1, min(wanted, -(-tokens // _TOKENS_PER_SPLIT), _MOST_SPLITS))
