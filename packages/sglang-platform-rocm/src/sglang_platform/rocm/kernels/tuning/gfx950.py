"""MI350X and MI355X: 160 KiB of LDS; 8-bit floats in the OCP encodings."""

from __future__ import annotations

from sglang_platform.core.portable.triton.architecture import ByHead, Launch, LaunchShapes
from sglang_platform.rocm.kernels.architecture import (
    RocmArchitecture,
    RocmDecodeShape,
    RocmExtendShape,
    RocmIndexShape,
)

__all__ = ["RECORD"]

RECORD = RocmArchitecture(
    name="gfx950",
    arch="gfx950",
    processors=256,
    on_a_die=32,
    shared=160 * 1024,
    converts_fp8=("e4m3fn", "e5m2"),
    shapes=LaunchShapes(
        reduce=Launch(2048, 8),
        elementwise=Launch(4096, 4),
        allocate=Launch(1024, 4),
        scatter=Launch(4096, 4),
        select=Launch(2048, 8),
        move=Launch(8192, 8),
    ),
    store=Launch(4096, 4),
    quantise=Launch(2048, 8),
    decode=ByHead(
        narrow=RocmDecodeShape(block_n=128, block_h=16, warps=4, stages=2),
        middle=RocmDecodeShape(block_n=64, block_h=16, warps=4, stages=2, waves_per_eu=1),
        wide=RocmDecodeShape(block_n=32, block_h=16, warps=4, stages=2),
        latent=RocmDecodeShape(block_n=32, block_h=16, warps=4, stages=2, waves=1, waves_per_eu=1),
        latent_fp8=RocmDecodeShape(block_n=32, block_h=16, warps=4, stages=1, waves=1, waves_per_eu=1),
        latent_packed=RocmDecodeShape(block_n=16, block_h=16, warps=4, stages=1, waves=1, waves_per_eu=1),
    ),
    extend=ByHead(
        narrow=RocmExtendShape(block_m=128, block_n=64, warps=4, stages=2, waves_per_eu=1),
        middle=RocmExtendShape(block_m=128, block_n=32, warps=8, stages=2, waves_per_eu=1),
        wide=RocmExtendShape(block_m=64, block_n=32, warps=8, stages=2, waves_per_eu=1),
        latent=RocmExtendShape(block_m=16, block_n=16, warps=8, stages=2, waves_per_eu=2),
    ),
    index=RocmIndexShape(block_n=64, warps=4, stages=2),
    index_runs=RocmIndexShape(block_n=128, tile=32, warps=4, stages=2),
)
