"""Whether kernels run on a tensor, and the launch shapes of the portable kernels.

Kernels do not specialise on the number of tokens or rows (`do_not_specialize`): it changes with every batch, and each
new specialisation would be compiled while a request waits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch
import triton

from sglang_platform.core.portable.triton.architecture import (
    PORTABLE,
    Architecture,
    LaunchShapes,
    pretended,
)

__all__ = ["ShapesOf", "cdiv", "launches", "next_power_of_2", "portable_shapes"]

_log = logging.getLogger(__name__)
_warned: set[str] = set()

ShapesOf = Callable[[torch.device], LaunchShapes]


def cdiv(n: int, size: int) -> int:
    """`triton.cdiv`, which takes microseconds on the host: it may be called within a kernel, too."""
    return -(-n // size)


def next_power_of_2(n: int) -> int:
    """The least power of two from `n` on; as above."""
    return 1 << max(n - 1, 0).bit_length()


def launches(tensor: torch.Tensor) -> bool:
    """True if Triton kernels run on `tensor`: on every device but the CPU; on the CPU in Triton's interpreter, or while
    CPU tensors stand for an architecture's (`architecture.for_architecture`)."""
    return tensor.device.type != "cpu" or bool(triton.knobs.runtime.interpret) or pretended() is not None


def portable_shapes(device: torch.device) -> LaunchShapes:
    """The launch shapes for a wrapper called without any: those of the pretended architecture, otherwise PORTABLE, with
    one warning per device type. A package's parts pass the shapes of their record instead."""
    target = pretended()
    if isinstance(target, Architecture):
        return target.shapes
    if device.type != "cpu" and device.type not in _warned:
        _warned.add(device.type)
        _log.warning(
            "kernels on %s are launched without the record of an architecture, in the shapes PORTABLE",
            device.type,
        )
    return PORTABLE
