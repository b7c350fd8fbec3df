"""H100 and H200: 227 KiB of shared memory, and wgmma, which takes 64 rows per group of 4 warps.

A group of 64 heads is one wgmma, which MLA has. Over an 8-bit cache its rows are widened in registers, which wgmma does
not multiply by: groups of 32, and more tokens per turn.
"""

from __future__ import annotations

from sglang_platform.core.portable.triton.architecture import ByHead, Launch, LaunchShapes
from sglang_platform.core.portable.triton.wrappers.record import DecodeShape, ExtendShape, IndexShape
from sglang_platform.cuda.kernels.architecture import CudaArchitecture

__all__ = ["RECORD"]

RECORD = CudaArchitecture(
    name="sm_90",
    arch=90,
    processors=132,
    shared=227 * 1024,
    converts_fp8=("e4m3fn", "e5m2"),
    shapes=LaunchShapes(
        reduce=Launch(1024, 16),
        elementwise=Launch(4096, 8),
        allocate=Launch(1024, 4),
        scatter=Launch(4096, 4),
        select=Launch(2048, 8),
        move=Launch(8192, 8),
    ),
    store=Launch(4096, 4),
    quantise=Launch(1024, 16),
    decode=ByHead(
        narrow=DecodeShape(block_n=128, block_h=64, warps=4, stages=3),
        middle=DecodeShape(block_n=64, block_h=64, warps=4, stages=4),
        wide=DecodeShape(block_n=64, block_h=64, warps=4, stages=3),
        latent=DecodeShape(block_n=32, block_h=64, warps=8, stages=4, waves=1),
        latent_fp8=DecodeShape(block_n=64, block_h=32, warps=8, stages=4, waves=1),
        latent_packed=DecodeShape(block_n=32, block_h=64, warps=8, stages=4, waves=1),
    ),
    pages=ByHead(
        narrow=DecodeShape(block_n=64, block_h=64, warps=4, stages=4),
        middle=DecodeShape(block_n=64, block_h=64, warps=4, stages=4),
        wide=DecodeShape(block_n=64, block_h=64, warps=4, stages=3),
        latent=DecodeShape(block_n=32, block_h=64, warps=8, stages=4, waves=1),
        latent_fp8=DecodeShape(block_n=64, block_h=32, warps=8, stages=4, waves=1),
    ),
    extend=ByHead(
        narrow=ExtendShape(block_m=128, block_n=128, warps=8, stages=3),
        middle=ExtendShape(block_m=128, block_n=64, warps=8, stages=3),
        wide=ExtendShape(block_m=128, block_n=32, warps=8, stages=2),
        latent=ExtendShape(block_m=64, block_n=32, warps=8, stages=2),
    ),
    index=IndexShape(block_n=64, warps=4, stages=3),
    index_runs=IndexShape(block_n=256, tile=32, warps=8, stages=3),
)
