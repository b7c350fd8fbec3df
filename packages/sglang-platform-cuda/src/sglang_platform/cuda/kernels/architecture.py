"""The record of an NVIDIA architecture: all launch parameters that the wrappers of this package choose by.

Decode reads the cache once and computes little, so what counts is bytes in flight: enough stages of BLOCK_N rows in
shared memory to cover the latency, and enough programs to fill the device. A stage holds BLOCK_N * (D + Dv) elements,
for absorbed MLA BLOCK_N * D. Extend is bound by the tensor cores where prompts are long: a block of BLOCK_M queries
reuses every key BLOCK_M times, and its scores, BLOCK_M * BLOCK_N float32, stay in registers beside an accumulator of
BLOCK_M * Dv.

A memory-bound program needs 16 bytes per lane and load and two or three loads in flight: 128 lanes * 16 bytes = 2 KiB
per load of a 4-warp program. 2048 bf16 elements are two of them, 4096 four, which the bandwidth per processor of Hopper
and Blackwell needs.

The numbers in `tuning/` were chosen to fit shared memory and registers without spills (see the generated table of
kernels); none was timed on a device yet. Shared memory: CUDA programming guide, table of technical specifications per
compute capability. 8-bit conversions: PTX ISA, cvt.
"""

from __future__ import annotations

from dataclasses import dataclass

from sglang_platform.core.portable.triton.architecture import ByHead
from sglang_platform.core.portable.triton.wrappers.record import DecodeShape, KernelRecord

__all__ = ["CudaArchitecture"]


@dataclass(frozen=True, kw_only=True)
class CudaArchitecture(KernelRecord):
    """A record of this package. pages: the shapes of decode over whole pages (`whole_pages`), where the device has a
    copy unit for them."""

    backend: str = "cuda"
    warp: int = 32
    pages: ByHead[DecodeShape] | None = None

    def page_shape(self, dim: int, *, latent: bool, eight_bit: bool) -> DecodeShape | None:
        """For heads of `dim` columns. None: whole pages are not read there."""
        return None if self.pages is None else self.pages.choose(dim, latent, eight_bit)
