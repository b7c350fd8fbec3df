"""One file per architecture, named as the compiler names it, with its `RECORD`. A new architecture is a new file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sglang_platform.core.portable.triton.architecture import Architectures, Measured
from sglang_platform.rocm.kernels.architecture import RocmArchitecture

if TYPE_CHECKING:
    import torch

__all__ = ["ARCHITECTURES", "FALLBACK"]

FALLBACK = "gfx90a"
"""The record for an architecture without a file or a compatible record: the least LDS, and no assumed 8-bit
conversion."""


def _measure(device: torch.device) -> Measured:
    import torch

    said = torch.cuda.get_device_properties(device)
    return Measured(
        name=str(said.gcnArchName).partition(":")[0],
        processors=said.multi_processor_count,
        warp=said.warp_size,
    )


ARCHITECTURES: Architectures[RocmArchitecture] = Architectures(
    __name__, fallback=FALLBACK, on_cpu="gfx942", measure=_measure
)
"""By name."""
