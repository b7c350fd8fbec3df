"""B200: 227 KiB of shared memory, tcgen05, and twice Hopper's bandwidth to cover."""

from __future__ import annotations

from sglang_platform.core.portable.triton.architecture import ByHead, Launch, LaunchShapes
from sglang_platform.core.portable.triton.wrappers.record import DecodeShape, ExtendShape, IndexShape
from sglang_platform.cuda.kernels.architecture import CudaArchitecture

__all__ = ["RECORD"]

RECORD = CudaArchitecture(
    name="sm_100",
    arch=100,
    processors=148,
    shared=227 * 1024,
    stands_in_for=("sm_110",),
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
        narrow=DecodeShape(block_n=128, block_h=64, warps=8, stages=4),
        middle=DecodeShape(block_n=64, block_h=64, warps=4, stages=4),
        wide=DecodeShape(block_n=64, block_h=64, warps=4, stages=3),
        latent=DecodeShape(block_n=32, block_h=16, warps=4, stages=3),
        latent_fp8=DecodeShape(block_n=64, block_h=32, warps=8, stages=4),
        latent_packed=DecodeShape(block_n=32, block_h=16, warps=8, stages=3),
    ),
    pages=ByHead(
        narrow=DecodeShape(block_n=64, block_h=64, warps=4, stages=4),
        middle=DecodeShape(block_n=64, block_h=64, warps=4, stages=4),
        wide=DecodeShape(block_n=64, block_h=64, warps=4, stages=3),
        latent=DecodeShape(block_n=64, block_h=32, warps=8, stages=3),
        latent_fp8=DecodeShape(block_n=64, block_h=32, warps=8, stages=4),
    ),
    extend=ByHead(
        narrow=ExtendShape(block_m=128, block_n=128, warps=8, stages=3),
        middle=ExtendShape(block_m=128, block_n=64, warps=8, stages=3),
        wide=ExtendShape(block_m=64, block_n=32, warps=8, stages=2),
        latent=ExtendShape(block_m=16, block_n=32, warps=4, stages=2),
    ),
    index=IndexShape(block_n=64, warps=4, stages=3),
    index_runs=IndexShape(block_n=256, tile=32, warps=8, stages=3),
)
