"""Which architecture a kernel is launched on, by the compiler's name: `sm_90`, `gfx942`.

Wrappers ask here, never `torch.cuda`, so that they run on CPU tensors too: in Triton's interpreter, and under a driver
without a device, for the target that `for_target` sets.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import torch

__all__ = ["KNOWN", "Target", "for_target", "pretended", "target_of"]


@dataclass(frozen=True)
class Target:
    """An architecture with what launch wrappers decide by.

    name: the compiler's name. processors: streaming multiprocessors or compute units. warp: lanes per warp.
    shared: bytes of shared memory a program may use.
    """

    name: str
    processors: int
    warp: int
    shared: int

    @property
    def is_hip(self) -> bool:
        return self.name.startswith("gfx")

    @property
    def compute_capability(self) -> int:
        """90 for sm_90; 0 on ROCm."""
        return 0 if self.is_hip else int(self.name.removeprefix("sm_"))


_KIB = 1024

# The shared memory a program can opt into: CUDA programming guide, table of technical specifications per compute
# capability; LDS per workgroup: AMD's CDNA2, CDNA3 and CDNA4 instruction set manuals. Processors of the product named.
KNOWN = {
    target.name: target
    for target in (
        Target("sm_80", 108, 32, 163 * _KIB),  # A100
        Target("sm_86", 84, 32, 99 * _KIB),  # A40
        Target("sm_89", 142, 32, 99 * _KIB),  # L40S
        Target("sm_90", 132, 32, 227 * _KIB),  # H200
        Target("sm_100", 148, 32, 227 * _KIB),  # B200
        Target("sm_103", 148, 32, 227 * _KIB),  # B300
        Target("sm_120", 188, 32, 99 * _KIB),  # RTX PRO 6000
        Target("gfx90a", 104, 64, 64 * _KIB),  # MI250X, one die
        Target("gfx942", 304, 64, 64 * _KIB),  # MI300X
        Target("gfx950", 256, 64, 160 * _KIB),  # MI355X
    )
}

_set: Target | None = None


@contextmanager
def for_target(name: str) -> Iterator[Target]:
    """Launch wrappers called inside with CPU tensors choose as they would on `name`."""
    global _set
    outer, _set = _set, KNOWN[name]
    try:
        yield _set
    finally:
        _set = outer


def pretended() -> Target | None:
    """The architecture that CPU tensors stand for at the moment, if any."""
    return _set


def target_of(device: torch.device) -> Target:
    """The architecture of `device`. For the CPU the one `for_target` set, sm_90 otherwise."""
    if device.type == "cuda":
        return _of_gpu(torch.cuda.current_device() if device.index is None else device.index)
    return KNOWN["sm_90"] if _set is None else _set


@cache
def _of_gpu(index: int) -> Target:
    properties = torch.cuda.get_device_properties(index)
    if torch.version.hip is not None:
        name = str(properties.gcnArchName).partition(":")[0]
        shared = KNOWN[name].shared if name in KNOWN else 64 * _KIB
        return Target(name, properties.multi_processor_count, properties.warp_size, shared)
    name = f"sm_{properties.major}{properties.minor}"
    shared = int(getattr(properties, "shared_memory_per_block_optin", KNOWN["sm_86"].shared))
    return Target(name, properties.multi_processor_count, properties.warp_size, shared)
