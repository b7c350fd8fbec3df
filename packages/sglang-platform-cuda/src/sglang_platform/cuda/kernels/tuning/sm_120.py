"""RTX 50 and RTX PRO 6000: Blackwell with 99 KiB of shared memory and mma.sync."""

from __future__ import annotations

from sglang_platform.core.portable.triton.architecture import ByHead, Launch, LaunchShapes
from sglang_platform.core.portable.triton.wrappers.record import DecodeShape, ExtendShape, IndexShape
from sglang_platform.cuda.kernels.architecture import CudaArchitecture

__all__ = ["RECORD"]

RECORD = CudaArchitecture(
    name="sm_120",
    arch=120,
    processors=188,
    shared=99 * 1024,
    stands_in_for=("sm_121",),
    converts_fp8=("e4m3fn", "e5m2"),
    shapes=LaunchShapes(
        reduce=Launch(1024, 16),
        elementwise=Launch(2048, 4),
        allocate=Launch(1024, 4),
        scatter=Launch(2048, 4),
        select=Launch(2048, 8),
        move=Launch(4096, 4),
    ),
    store=Launch(2048, 4),
    quantise=Launch(1024, 16),
    decode=ByHead(
        narrow=DecodeShape(block_n=64, block_h=32, warps=4, stages=3),
        middle=DecodeShape(block_n=32, block_h=32, warps=4, stages=3),
        wide=DecodeShape(block_n=32, block_h=16, warps=4, stages=2),
        latent=DecodeShape(block_n=32, block_h=16, warps=8, stages=2),
    ),
    extend=ByHead(
        narrow=ExtendShape(block_m=128, block_n=64, warps=8, stages=2),
        middle=ExtendShape(block_m=64, block_n=64, warps=8, stages=2),
        wide=ExtendShape(block_m=64, block_n=32, warps=8, stages=1),
        latent=ExtendShape(block_m=16, block_n=16, warps=4, stages=1),
    ),
    index=IndexShape(block_n=64, warps=4, stages=3),
    index_runs=IndexShape(block_n=128, tile=32, warps=8, stages=3),
)
