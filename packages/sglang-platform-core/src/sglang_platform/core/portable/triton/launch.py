"""Where kernels run, and the shapes they are launched with, by architecture.

Kernels do not specialise on the number of tokens or rows (`do_not_specialize`): it changes with every batch, and a new
specialisation is a compilation while somebody waits.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import torch
import triton

from sglang_platform.core.portable.triton.architecture import pretended, target_of

__all__ = ["CONSERVATIVE", "TUNING", "Launch", "Tuning", "converts_fp8", "launches", "tuned"]

_log = logging.getLogger(__name__)


def launches(tensor: torch.Tensor) -> bool:
    """Whether Triton kernels run on `tensor`: on every device but the CPU, and there in Triton's interpreter and where
    CPU tensors stand for a device's (`target.for_target`)."""
    return tensor.device.type != "cpu" or bool(triton.knobs.runtime.interpret) or pretended() is not None


# Architectures that convert float32 to these formats in one instruction, rounding to nearest even (PTX ISA, cvt;
# AMD CDNA3 and CDNA4 ISA, V_CVT_PK_FP8_F32). The others take the integer code in fp8.py.
_OCP, _FNUZ = ("e4m3fn", "e5m2"), ("e4m3fnuz", "e5m2fnuz")
_IN_HARDWARE = {
    "sm_89": _OCP,
    "sm_90": _OCP,
    "sm_100": _OCP,
    "sm_103": _OCP,
    "sm_120": _OCP,
    "gfx942": _FNUZ,
    "gfx950": _OCP,
}


def converts_fp8(device: torch.device, fp8_format: str) -> bool:
    """Whether one instruction of the device makes `fp8_format` from float32; "" is no format."""
    return fp8_format in _IN_HARDWARE.get(target_of(device).name, ())


@dataclass(frozen=True)
class Launch:
    """`elements` that one program handles, by `num_warps` warps (of 64 lanes on CDNA, of 32 on NVIDIA)."""

    elements: int
    num_warps: int


@dataclass(frozen=True)
class Tuning:
    """The launch shapes of one architecture.

    store: rows into a KV pool. move: rows within one. elementwise: activation, rotary. allocate: the page allocator's
    integers. reduce: ops that reduce a row; there `elements` is what one warp takes, `num_warps` the most warps.
    """

    store: Launch
    move: Launch
    reduce: Launch
    elementwise: Launch
    allocate: Launch


CONSERVATIVE = Tuning(
    store=Launch(2048, 4),
    move=Launch(4096, 4),
    reduce=Launch(1024, 16),
    elementwise=Launch(2048, 4),
    allocate=Launch(1024, 4),
)

# The arithmetic behind the numbers; a GPU run (benchmarks/gpu.py) is what confirms or changes them. A memory-bound
# program needs 16 bytes per lane and load and two or three loads in flight: 128 lanes * 16 bytes = 2 KiB per load of a
# 4-warp program. 2048 bf16 elements are two of them, 4096 four. Hopper and Blackwell have the bandwidth per processor
# that needs four in flight; a CDNA wave has 64 lanes, so 4 waves load 4 KiB at once and 4096 elements are two loads.
_AMPERE = CONSERVATIVE
_HOPPER = Tuning(
    store=Launch(4096, 4),
    move=Launch(8192, 8),
    reduce=Launch(1024, 16),
    elementwise=Launch(4096, 8),
    allocate=Launch(1024, 4),
)
_CDNA = Tuning(
    store=Launch(4096, 4),
    move=Launch(8192, 8),
    reduce=Launch(2048, 8),
    elementwise=Launch(4096, 4),
    allocate=Launch(1024, 4),
)

TUNING: dict[str, Tuning] = {
    "sm_80": _AMPERE,
    "sm_86": _AMPERE,
    "sm_89": _AMPERE,
    "sm_90": _HOPPER,
    "sm_100": _HOPPER,
    "sm_103": _HOPPER,
    "sm_120": _AMPERE,
    "gfx90a": _CDNA,
    "gfx942": _CDNA,
    "gfx950": _CDNA,
}

_warned: set[str] = set()


def tuned(device: torch.device) -> Tuning:
    """The launch shapes for a device; an architecture outside the table gets safe ones, and one warning."""
    name = target_of(device).name
    found = TUNING.get(name)
    if found is not None:
        return found
    if name not in _warned:
        _warned.add(name)
        _log.warning(
            "%s is outside the tested architectures (%s): kernels use conservative launch shapes",
            name,
            ", ".join(TUNING),
        )
    return CONSERVATIVE
