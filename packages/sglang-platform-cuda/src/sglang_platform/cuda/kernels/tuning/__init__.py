"""One file per architecture, named as the compiler names it, with its `RECORD`. A new architecture is a new file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sglang_platform.core.portable.triton.architecture import Architectures, Measured
from sglang_platform.cuda.kernels.architecture import CudaArchitecture

if TYPE_CHECKING:
    import torch

__all__ = ["ARCHITECTURES", "FALLBACK"]

FALLBACK = "sm_86"
"""The record for an architecture without a file or a compatible record: the least shared memory, and no assumed 8-bit
conversion."""


def _measure(device: torch.device) -> Measured:
    import torch

    said = torch.cuda.get_device_properties(device)
    return Measured(
        name=f"sm_{said.major}{said.minor}",
        processors=said.multi_processor_count,
        warp=said.warp_size,
        shared=int(getattr(said, "shared_memory_per_block_optin", 0)),
    )


ARCHITECTURES: Architectures[CudaArchitecture] = Architectures(
    __name__, fallback=FALLBACK, on_cpu="sm_90", measure=_measure
)
"""By name."""
